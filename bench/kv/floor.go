package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The floors move a work's bytes and do nothing else: no sums over TCP, no messages' heads, no
// store. What they take is the least that the kernel's copies, or a read of each contribution and a
// write of the value in shared memory, cost on this machine.
const (
	floorCommand = "floor"
	// floorTCP sends each worker's bytes to the servers over loopback TCP with cubic, and the same
	// back from the servers' memory.
	floorTCP = "floor-tcp"
	// floorMemory has servers that read each worker's memory and write the sum.
	floorMemory = "floor-memory"
)

// floor is one process of a floor's job: a peer, see peer.go, which ends with its standard input.
// The scheduler tells workers where the servers listen, and is their barrier.
func floor(way string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	works, err := readPlan(os.Getenv(planEnv))
	if err != nil {
		return err
	}
	servers, err1 := number("DMLC_NUM_SERVER")
	workers, err2 := number("DMLC_NUM_WORKER")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	role := os.Getenv("DMLC_ROLE")
	if role == "scheduler" {
		return floorSchedule(workers, servers)
	}
	root, err := net.Dial("tcp", net.JoinHostPort(os.Getenv("DMLC_PS_ROOT_URI"), os.Getenv("DMLC_PS_ROOT_PORT")))
	if err != nil {
		return err
	}
	defer root.Close()
	if role == "server" {
		return floorServer(way, root, works, workers, servers)
	}
	return floorWorker(way, root, works, servers)
}

// number is the environment variable's number.
func number(variable string) (int, error) {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", variable, err)
	}
	return n, nil
}

// floorServer tells the scheduler where it listens, and serves all works to all workers.
func floorServer(way string, root net.Conn, works []planned, workers, servers int) error {
	rank, err := number("PARAGON_RANK")
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{Control: cubic}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	if _, err := fmt.Fprintf(root, "server %d %s\n", rank, ln.Addr()); err != nil {
		return err
	}
	var conns []net.Conn
	for range workers {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		conns = append(conns, c)
	}
	if way == floorMemory {
		return memoryServer(conns, works, rank, servers)
	}
	return tcpServer(conns, works, servers)
}

// floorWorker connects to the servers that the scheduler names, and plays all works.
func floorWorker(way string, root net.Conn, works []planned, servers int) error {
	if _, err := fmt.Fprintln(root, "worker"); err != nil {
		return err
	}
	in := bufio.NewReader(root)
	var conns []net.Conn
	for range servers {
		addr, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		c, err := (&net.Dialer{Control: cubic}).Dial("tcp", strings.TrimSpace(addr))
		if err != nil {
			return err
		}
		defer c.Close()
		conns = append(conns, c)
	}
	barrier := func() error {
		if _, err := fmt.Fprintln(root, "barrier"); err != nil {
			return err
		}
		_, err := in.ReadString('\n')
		return err
	}
	player := tcpWorker
	if way == floorMemory {
		player = memoryWorker
	}
	return floorPlay(works, func(w planned) (sample, error) { return player(conns, w) }, barrier)
}

// A sample plays the passes of one sample of a work.
type sample func() error

// floorPlay plays the works as bench/kv's own workers do: each as the sample that player makes of
// it. A work without one is skipped.
func floorPlay(works []planned, player func(w planned) (sample, error), barrier func() error) error {
	out := json.NewEncoder(os.Stdout)
	for _, w := range works {
		play, err := player(w)
		if err != nil {
			return err
		}
		if play == nil {
			if err := out.Encode(event{Work: w.name, Skip: true}); err != nil {
				return err
			}
			continue
		}
		for range 3 {
			if err := play(); err != nil {
				return err
			}
		}
		if err := barrier(); err != nil {
			return err
		}
		if err := out.Encode(event{Work: w.name, Begin: true}); err != nil {
			return err
		}
		end := event{Work: w.name}
		for range w.samples {
			begun := time.Now()
			if err := play(); err != nil {
				return err
			}
			took := int64(time.Since(begun))
			end.Took, end.First = append(end.Took, took), append(end.First, took)
		}
		if err := out.Encode(end); err != nil {
			return err
		}
		if err := barrier(); err != nil {
			return err
		}
	}
	return nil
}

// floorSchedule tells workers the servers' addresses, by rank, and answers a barrier when all
// workers are at it.
func floorSchedule(workers, servers int) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	fmt.Println(ln.Addr())
	addrs := make([]string, servers)
	var players []*bufio.ReadWriter
	for range workers + servers {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		defer c.Close()
		rw := bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c))
		line, err := rw.ReadString('\n')
		if err != nil {
			return err
		}
		if f := strings.Fields(line); f[0] == "server" {
			rank, err := strconv.Atoi(f[1])
			if err != nil {
				return err
			}
			addrs[rank] = f[2]
		} else {
			players = append(players, rw)
		}
	}
	all := func(text string) error {
		for _, p := range players {
			_, _ = p.WriteString(text)
			if err := p.Flush(); err != nil {
				return err
			}
		}
		return nil
	}
	for text := strings.Join(addrs, "\n") + "\n"; ; text = "go\n" {
		if err := all(text); err != nil {
			return err
		}
		for i, p := range players {
			if _, err := p.ReadString('\n'); err != nil {
				if i == 0 && errors.Is(err, io.EOF) {
					// The first one has played all.
					return nil
				}
				return err
			}
		}
	}
}

// tcpPieces are what goes back at once: keys, or parts of a large one, that have come whole. Small
// keys go together, as a program would send them that has nothing to do but to move them.
func tcpPieces(w planned, servers int) (pieces []int, total int) {
	const least, most = 64 << 10, 1 << 20
	open := 0
	for i := len(w.keys) - 1; i >= 0; i-- {
		open += (4*w.keys[i] + servers - 1) / servers
		for open >= most {
			pieces, open = append(pieces, most), open-most
		}
		if open >= least {
			pieces, open = append(pieces, open), 0
		}
	}
	if open > 0 {
		pieces = append(pieces, open)
	}
	for _, n := range pieces {
		total += n
	}
	return pieces, total
}

// ackBytes answer a piece whose value is not wanted.
const ackBytes = 16

// tcpWorker returns a sample: all pieces to each server, and what they answer.
func tcpWorker(conns []net.Conn, w planned) (sample, error) {
	pieces, total := tcpPieces(w, len(conns))
	servers := make([]*tcpPeer, len(conns))
	for i, c := range conns {
		servers[i] = &tcpPeer{c, touched(total), touched(total)}
	}
	return func() error {
		var all sync.WaitGroup
		errs := make([]error, 2*len(servers))
		for i, s := range servers {
			answered := make(chan struct{}, len(pieces))
			all.Go(func() { errs[2*i] = s.write(&w, pieces, answered) })
			all.Go(func() { errs[2*i+1] = s.read(&w, pieces, answered) })
		}
		all.Wait()
		return errors.Join(errs...)
	}, nil
}

// A tcpPeer is one server, seen from a worker, with the memory of what is sent to it and of what
// it answers.
type tcpPeer struct {
	conn       net.Conn
	grads, out []byte
}

// write sends the pieces. From the second pass on a piece waits for its answer of the pass before.
func (s *tcpPeer) write(w *planned, pieces []int, answered <-chan struct{}) error {
	return w.eachPiece(pieces, func(pass, at, n int) error {
		if pass > 0 {
			<-answered
		}
		_, err := s.conn.Write(s.grads[at : at+n])
		return err
	})
}

// read takes the answers. It closes answered after an error, too, so that the writer does not wait.
func (s *tcpPeer) read(w *planned, pieces []int, answered chan<- struct{}) error {
	defer close(answered)
	return w.eachPiece(pieces, func(pass, at, n int) error {
		if !w.pull {
			n = ackBytes
		}
		_, err := io.ReadFull(s.conn, s.out[at:at+n])
		if pass < w.passes-1 {
			answered <- struct{}{}
		}
		return err
	})
}

// eachPiece goes through the pieces of a sample: at says where in the memory of a pass.
func (w *planned) eachPiece(pieces []int, f func(pass, at, n int) error) error {
	for pass := range w.passes {
		at := 0
		for _, n := range pieces {
			if err := f(pass, at, n); err != nil {
				return err
			}
			at += n
		}
	}
	return nil
}

// tcpServer reads each worker's pieces into memory that stays in the cache, and answers each from a
// value's memory.
func tcpServer(conns []net.Conn, works []planned, servers int) error {
	var all sync.WaitGroup
	errs := make([]error, len(conns))
	for i, c := range conns {
		all.Go(func() {
			for _, w := range works {
				if errs[i] == nil {
					errs[i] = tcpServe(c, w, servers)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// tcpServe is a server of the floor: it reads pieces and answers each as soon as it has come whole.
// Reading goes on while an answer is written, as on a real server.
func tcpServe(c net.Conn, w planned, servers int) error {
	pieces, total := tcpPieces(w, servers)
	value, scratch := touched(total), touched(1<<20)
	passes := (w.samples + 3) * w.passes
	// come has the bytes of each piece that has come.
	come := make(chan int, len(pieces)*2)
	var reading error
	go func() {
		defer close(come)
		for range passes {
			for _, n := range pieces {
				if _, reading = io.ReadFull(c, scratch[:n]); reading != nil {
					return
				}
				come <- n
			}
		}
	}()
	at := 0
	for n := range come {
		answer := value[at : at+n]
		if at += n; at == total {
			at = 0
		}
		if !w.pull {
			answer = value[:ackBytes]
		}
		if _, err := c.Write(answer); err != nil {
			return err
		}
	}
	return reading
}

// touched is memory whose pages are there.
func touched(n int) []byte {
	b := make([]byte, n+ackBytes)
	for i := range b {
		b[i] = 1
	}
	return b
}
