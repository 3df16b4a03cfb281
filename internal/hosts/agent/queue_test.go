package agent

import (
	"encoding/json"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/process"
)

// A job's most processes may all be started on one host before its agent reads anything.
func TestManyStartsWaitForASlowAgent(t *testing.T) {
	const processes = 5000
	toAgent, in := io.Pipe()
	out, fromAgent := io.Pipe()
	go func() {
		io.WriteString(fromAgent, opening)
		(&frameWriter{w: fromAgent}).sendJSON(kindHello, 0, Hello{})
	}()
	c, err := NewClient(t.Context(), "d1", in, out)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, processes)
	handles := make(chan process.Handle, processes)
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			h, err := c.Start(t.Context(), process.Spec{Name: "worker"}, process.Output{})
			if err != nil {
				errs <- err
				return
			}
			handles <- h
		})
	}

	// All wait but the one that is being written.
	for {
		c.mu.Lock()
		n := len(c.processes)
		c.mu.Unlock()
		if n == processes && c.queue.len() >= processes-1 || len(errs) > 0 {
			break
		}
		runtime.Gosched()
	}
	agent := &frameWriter{w: fromAgent}
	signals := make(chan int)
	go func() {
		count := 0
		for {
			k, number, body, _, err := readFrame(toAgent, nil)
			if err != nil {
				signals <- count
				return
			}
			switch k {
			case kindStart:
				agent.sendJSON(kindStarted, number, startedBody{PID: int(number)})
			case kindSignal:
				var b signalBody
				if json.Unmarshal(body, &b) == nil && b.Signal == 15 {
					count++
				}
			}
		}
	}()
	all.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	close(handles)
	for h := range handles {
		h.Signal(15)
	}
	for c.queue.len() > 0 {
		runtime.Gosched() // the agent reads
	}
	c.stop()
	if n := <-signals; n != processes {
		t.Errorf("%d of %d processes got their signal", n, processes)
	}
	fromAgent.Close()
}

func (q *frameQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.frames)
}
