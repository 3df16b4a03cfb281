package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeSlots are slots of hosts by name.
type fakeSlots struct {
	mu   sync.Mutex
	free map[string]int
	back chan string
}

func (f *fakeSlots) Hold(ctx context.Context, number int, host string) (Held, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.free[host] == 0 {
		return Held{}, nil, fmt.Errorf("no slot of %s for worker %d", host, number)
	}
	f.free[host]--
	return Held{CPUs: []int{number}, GPUs: []string{}}, func() {
		f.mu.Lock()
		f.free[host]++
		f.mu.Unlock()
		f.back <- host
	}, nil
}

func holdVariable() string { return "PARAGON_TEST_HOLD" }

// This test program holds a slot, and then is another program.
func init() {
	if os.Getenv(holdVariable()) == "" {
		return
	}
	if _, err := Hold(context.Background(), os.LookupEnv); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cmd := exec.Command("sh", "-c", "echo held; read x") // a child holds it, too
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	if err := cmd.Run(); err != nil {
		os.Exit(2)
	}
	os.Exit(0)
}

// A slot is free when the processes of its worker have ended, and not before.
func TestASlotIsHeldUntilItsProcessesHaveEnded(t *testing.T) {
	s := newServer(t, "")
	slots := &fakeSlots{free: map[string]int{"d1": 1}, back: make(chan string, 1)}
	x := s.OpenElastic(task, slots, newBackend(t, 9))
	defer x.Close()
	start := func(rank int) (*exec.Cmd, func(), *strings.Builder) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(append(os.Environ(), x.Environment()...), holdVariable()+"=1", fmt.Sprintf("PARAGON_RANK=%d", rank), HostVariable+"=d1")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if rank == 0 {
			b := make([]byte, 5)
			if _, err := out.Read(b); err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
		}
		return cmd, func() { in.Close() }, &errs
	}
	first, end, _ := start(0)
	second, _, errs := start(1)
	if err := second.Wait(); err == nil || !strings.Contains(errs.String(), "no slot of d1 for worker 1") {
		t.Errorf("a second worker in one slot: %v, %q, want an error", err, errs.String())
	}
	if err := first.Process.Kill(); err != nil { // its child lives on, and holds the slot
		t.Fatal(err)
	}
	if _, err := first.Process.Wait(); err != nil { // not Cmd.Wait, which closes the child's standard input
		t.Fatal(err)
	}
	select {
	case <-slots.back:
		t.Fatal("the slot was given back while a process of its worker still ran")
	case <-time.After(50 * time.Millisecond):
	}
	end()
	if host := <-slots.back; host != "d1" {
		t.Errorf("a slot of %s was given back, want one of d1", host)
	}
}

func join(t *testing.T, x *Session, number int) *Client {
	t.Helper()
	c, _, err := Dial(t.Context(), environment(x, fmt.Sprintf("PARAGON_RANK=%d", number)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Workers of an elastic trial come and go; the first that is there reports and saves checkpoints.
func TestTheFirstWorkerThatIsThereReports(t *testing.T) {
	s := newServer(t, "")
	b := newBackend(t, 9)
	x := s.OpenElastic(task, &fakeSlots{}, b)
	defer x.Close()
	zero, one := join(t, x, 0), join(t, x, 1)
	report := func(c *Client, step int, value float64) error {
		a, err := c.Report(t.Context(), step, map[string]float64{"accuracy": value})
		if err == nil && a.Action != "continue" {
			err = fmt.Errorf("got %+v", a)
		}
		return err
	}
	answered := make(chan error, 1)
	go func() { answered <- report(one, 1, 0.9) }()
	if err := errors.Join(report(zero, 1, 0.5), <-answered); err != nil {
		t.Fatal(err)
	}
	late := join(t, x, 7)
	if err := late.Checkpoint(t.Context(), 1, func(string) error { return errors.New("it must not write") }); err != nil {
		t.Error(err)
	}
	go func() { answered <- report(one, 2, 0.8) }()
	if err := zero.Done(t.Context(), Done{}); err != nil { // it leaves while another waits for it
		t.Fatal(err)
	}
	if err := errors.Join(<-answered, report(late, 2, 0.7)); err != nil {
		t.Fatal(err)
	}
	wrote := false
	if err := one.Checkpoint(t.Context(), 2, func(string) error { wrote = true; return nil }); err != nil || !wrote {
		t.Errorf("the checkpoint of the worker that is first now: %v, written %t", err, wrote)
	}
	if got, want := strings.Join(b.told, " "), "1:0.5 2:0.8"; got != want {
		t.Errorf("the search heard %q, want %q: each step once, from the first worker", got, want)
	}
	if again := join(t, x, 0); again.Task().Elastic != true { // a process in the place of one that ended
		t.Error("the task is not elastic")
	}
}

func TestATrialThatIsNotElasticHasNoSlots(t *testing.T) {
	s := newServer(t, "")
	x := s.Open(task, nil, newBackend(t, 9))
	defer x.Close()
	_, err := Hold(t.Context(), environment(x, "PARAGON_RANK=0", HostVariable+"=d1"))
	if err == nil || !strings.Contains(err.Error(), "trial 7 is not elastic") {
		t.Errorf("got %v", err)
	}
	if _, err := Hold(t.Context(), func(string) (string, bool) { return "", false }); err == nil || !strings.Contains(err.Error(), "PARAGON_TUNE_ADDRESS is not set") {
		t.Errorf("got %v", err)
	}
}
