package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twoHosts is a trial of two hosts with two workers each, whose rank 0 and rank 2 save.
func twoHosts(t *testing.T) (b *backend, x *Session, first, third *Client) {
	t.Helper()
	s := newServer(t, "127.0.0.1")
	b = newBackend(t, 9)
	two := unshared(t, "")
	two.Workers, two.PerHost = 4, 2
	x = s.Open(two, nil, b)
	t.Cleanup(x.Close)
	return b, x, dial(t, x, 0), dial(t, x, 2)
}

// parts serves the parts of a client, and returns how that ended.
func parts(ctx context.Context, c *Client, write func(dir string) error) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- c.Parts(ctx, write) }()
	return ended
}

// put makes files whose text is their name and the host that wrote them.
func put(dir, host string, names ...string) error {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(host), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// manifest makes the file that completes a job's checkpoint of so many workers.
func manifest(dir, step string, workers int) error {
	return os.WriteFile(filepath.Join(dir, step, "complete.json"), fmt.Appendf(nil, `{"version":1,"workers":%d}`, workers), 0o666)
}

// The ranks on a host share the folder that the first of them makes.
func TestEachHostHasAFolder(t *testing.T) {
	_, x, first, third := twoHosts(t)
	second, fourth := dial(t, x, 1), dial(t, x, 3)
	must(t, third.Ready(t.Context(), "/third"))
	must(t, first.Ready(t.Context(), "/first"))
	for _, tc := range []struct {
		c    *Client
		want string
	}{{second, "/first"}, {fourth, "/third"}} {
		if dir, err := tc.c.Await(t.Context()); dir != tc.want || err != nil {
			t.Errorf("rank %d got %q, %v, want %q", tc.c.Rank(), dir, err, tc.want)
		}
	}
	if err := second.Ready(t.Context(), "/second"); err == nil {
		t.Error("rank 1 made the folder of rank 0's host")
	}
}

// A checkpoint has the files of all hosts, those of rank 0's where several have the same one, and
// the other hosts take theirs after rank 0 has.
func TestACheckpointHasTheFilesOfAllHosts(t *testing.T) {
	b, _, first, third := twoHosts(t)
	rank0Wrote := make(chan struct{})
	ended := parts(t.Context(), third, func(dir string) error {
		select {
		case <-rank0Wrote:
		default:
			t.Error("the other host took its files before rank 0 had taken its own")
		}
		return put(dir, "b", "step-00000003/worker-2.safetensors", "step-00000003/worker-3.safetensors", "same", "again")
	})
	must(t, first.Checkpoint(t.Context(), 3, func(dir string) error {
		defer close(rank0Wrote)
		return errors.Join(put(dir, "a", "step-00000003/store.safetensors", "step-00000003/worker-0.safetensors", "step-00000003/worker-1.safetensors", "same",
			UnchangedFolder+"/again", UnchangedFolder+"/before"),
			manifest(dir, "step-00000003", 4))
	}))
	wantTree(t, b.kept[3], map[string]string{"same": "a", "again": "b", "before": "a", "step-00000003/complete.json": `{"version":1,"workers":4}`, "step-00000003/store.safetensors": "a",
		"step-00000003/worker-0.safetensors": "a", "step-00000003/worker-1.safetensors": "a", "step-00000003/worker-2.safetensors": "b", "step-00000003/worker-3.safetensors": "b"})
	must(t, first.Done(t.Context(), Done{}))
	if err := <-ended; err != nil {
		t.Errorf("the parts ended with %v, want none: rank 0 has ended", err)
	}
	must(t, third.Done(t.Context(), Done{}))
	wantNoScratch(t)
}

// A checkpoint that lacks a file of another host is not kept. Of older ones in it, such as a job
// keeps, those that lack a file are not complete.
func TestACheckpointThatLacksAFileIsNotKept(t *testing.T) {
	for _, tc := range []struct {
		name  string
		write func(dir string, third *Client) error
		want  string
	}{
		{"a worker's file is missing", func(dir string, _ *Client) error { return put(dir, "b", "step-00000002/worker-2.safetensors") },
			"the job's checkpoint after 2 steps is not whole: worker-3.safetensors is not there"},
		{"the host has none", func(string, *Client) error { return nil }, "worker-2.safetensors is not there"},
		{"the host cannot read them", func(string, *Client) error { return errors.New("disk broken") }, "files of rank 2's host: disk broken"},
		{"the rank is killed in the middle", func(dir string, third *Client) error {
			third.conn.Close()
			return errors.New("killed")
		}, "files of rank 2's host: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, _, first, third := twoHosts(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := parts(ctx, third, func(dir string) error { return tc.write(dir, third) })
			save := func(step int) error {
				return first.Checkpoint(t.Context(), step, func(dir string) error {
					const now = "step-00000002"
					return errors.Join(put(dir, "a", now+"/store.safetensors", now+"/worker-0.safetensors", now+"/worker-1.safetensors"), manifest(dir, now, 4))
				})
			}
			if err := save(2); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
			if b.kept[2] != "" {
				t.Error("it was kept")
			}
			cancel()
			<-ended
			third.conn.Close()
			if err := save(4); err == nil || !strings.Contains(err.Error(), "rank 2") {
				t.Errorf("after rank 2 had ended: got %v, want an error", err)
			}
		})
	}
	t.Run("an older one", func(t *testing.T) {
		b, _, first, third := twoHosts(t)
		ended := parts(t.Context(), third, func(dir string) error {
			return put(dir, "b", "step-00000004/worker-1.safetensors")
		})
		must(t, first.Checkpoint(t.Context(), 4, func(dir string) error {
			return errors.Join(put(dir, "a", "step-00000002/store.safetensors", "step-00000002/worker-0.safetensors", "step-00000004/store.safetensors", "step-00000004/worker-0.safetensors"),
				manifest(dir, "step-00000002", 2), manifest(dir, "step-00000004", 2))
		}))
		for name, want := range map[string]bool{"step-00000002": false, "step-00000004": true} {
			if _, err := os.Stat(filepath.Join(b.kept[4], name, "complete.json")); (err == nil) != want {
				t.Errorf("%s is complete: %v, want %t", name, err, want)
			}
		}
		must(t, first.Done(t.Context(), Done{}))
		<-ended
	})
}
