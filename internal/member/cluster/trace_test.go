package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
)

// askTrace puts a request about a trace.
func askTrace(t *testing.T, job *jobtest.Job, into control.Answer, request string, args ...any) {
	t.Helper()
	answer, err := job.Control(t.Context(), fmt.Sprintf(request, args...))
	if err == nil {
		err = json.Unmarshal([]byte(answer), into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A node that leaves while it records sends what it has before it says that it leaves; and the
// scheduler of a job that ends then stays until that was fetched.
func TestNodesThatLeaveSendTheirSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2})
		nodes := make([]*cluster.Node, 2)
		joined := make(chan error)
		for rank := range nodes {
			go func() {
				var err error
				nodes[rank], err = cluster.Join(t.Context(), job.WorkerConfig(rank))
				joined <- err
			}()
		}
		for range nodes {
			if err := <-joined; err != nil {
				t.Fatal(err)
			}
		}
		var begun control.Trace
		askTrace(t, job, &begun, `{"op":"trace","steps":1000}`)
		// Nobody asks meanwhile.
		time.Sleep(10 * time.Second)
		for _, n := range nodes {
			now := n.Trace().Now()
			n.Trace().Add(trace.Span{Kind: trace.Push, Begin: now, End: now})
		}
		left := make(chan error, len(nodes))
		leave := func(n *cluster.Node) {
			go func() { left <- n.Leave(context.WithoutCancel(t.Context()), true, "") }()
		}
		parts := func() (p control.TraceParts, done int) {
			askTrace(t, job, &p, `{"op":"trace-parts","trace":%d}`, begun.Trace)
			for _, n := range p.Nodes {
				if n.Missing != "" {
					t.Errorf("%s %d: %s", n.Role, n.Rank, n.Missing)
				}
				if n.Done {
					done++
				}
			}
			return p, done
		}
		leave(nodes[0])
		synctest.Wait()
		if err := <-left; err != nil {
			t.Fatal(err)
		}
		if p, done := parts(); done != 1 || len(p.Chunks) != 1 || p.State != control.TraceRecording {
			t.Errorf("one worker has left: got %d done, %d chunks, %s; want its own", done, len(p.Chunks), p.State)
		}
		leave(nodes[1])
		if err := <-left; err != nil {
			t.Fatal(err)
		}
		// A scheduler stays for longer after its job.
		time.Sleep(time.Second)
		if p, done := parts(); done != 3 || len(p.Chunks) != 2 || p.State != control.TraceDone {
			t.Errorf("the job has finished: got %d done, %d chunks, %s; want those of both workers, and of the server", done, len(p.Chunks), p.State)
		}
	})
}

// A node whose job ends in a failure or that is closed is not held up by a trace.
func TestClosedNodesAreNotHeldUpByATrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{})
		n, err := cluster.Join(t.Context(), job.WorkerConfig(0))
		if err != nil {
			t.Fatal(err)
		}
		askTrace(t, job, new(control.Trace), `{"op":"trace","steps":1000}`)
		time.Sleep(10 * time.Second) // fake
		if !n.Trace().On() {
			t.Fatal("it does not record")
		}
		job.Net.Cut("worker0", "scheduler")
		begin := time.Now()
		n.Close()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("Close took %v, want less than a second", took)
		}
	})
}
