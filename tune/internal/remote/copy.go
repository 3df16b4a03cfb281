package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/internal/files/scratch"
)

const (
	// copyPatience is how long a copy may make no progress, in however many connections.
	copyPatience = time.Minute
	// The first wait before a copy connects anew, and the longest.
	firstWait, longestWait = 50 * time.Millisecond, 5 * time.Second
)

// save lets write fill a temporary folder, and copies it to the search.
func (c *Client) save(ctx context.Context, write func(dir string) error) error {
	dir, remove, err := scratchFolder()
	if err != nil {
		return err
	}
	// What stays is removed by the next process that makes a temporary folder.
	defer func() { _ = remove() }()
	if err := write(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	all, err := listTree(root)
	if err != nil {
		return err
	}
	var at position
	err = c.copy(ctx, copySave, func() position { return at }, func(conn net.Conn, w *wire) error {
		_ = conn.SetReadDeadline(time.Now().Add(copyTimeout))
		m, err := w.receive()
		switch {
		case err != nil:
			return broken(err)
		case m.Error != nil:
			return &refusal{*m.Error}
		case m.From == nil:
			return errors.New("got another message, want where the copy begins")
		}
		at = *m.From
		return sendAnswered(conn, w, root, all, at)
	})
	if err != nil {
		return fmt.Errorf("copy the checkpoint to the search: %w", err)
	}
	return nil
}

// sendAnswered sends the entries and receives the answer, which comes before the end if it is an
// error.
func sendAnswered(conn net.Conn, w *wire, root *os.Root, all []entry, from position) error {
	_ = conn.SetReadDeadline(time.Time{})
	answered := make(chan error, 1)
	go func() {
		m, err := w.receive()
		switch {
		case err != nil:
			err = broken(err)
		case m.Error != nil:
			err = &refusal{*m.Error}
		case m.Whole == nil:
			err = errors.New("the search did not confirm the copy")
		}
		if err != nil {
			// Nothing that is sent from now on counts.
			conn.Close()
		}
		answered <- err
	}()
	sent := sendTree(conn, w, root, all, from, func() {})
	if sent != nil && !errors.Is(sent, errBroken) {
		// A file cannot be read: closing the connection ends the copy, which does not
		// count.
		conn.Close()
		<-answered
		return sent
	}
	_ = conn.SetReadDeadline(time.Now().Add(copyTimeout))
	return <-answered
}

// Restore returns the folder of the checkpoint to go on from, and a function that removes what was
// made for it. Without the search's files the checkpoint is copied into a temporary folder of this
// machine; a worker that joins an elastic trial later finds an empty one if the checkpoint is not
// there any more.
func (c *Client) Restore(ctx context.Context) (dir string, remove func() error, err error) {
	if !c.unshared {
		return c.task.Restore.Dir, func() error { return nil }, nil
	}
	if dir, remove, err = scratchFolder(); err != nil {
		return "", nil, err
	}
	in := newTreeReceiver(dir, math.MaxInt64, func() {})
	defer in.close()
	err = c.copy(ctx, copyRestore, in.position, func(conn net.Conn, w *wire) error { return in.receive(conn, w) })
	if errors.Is(err, fs.ErrNotExist) && c.task.Elastic {
		err = nil
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("tune: trial %d rank %d: copy the checkpoint of trial %d step %d from the search: %w", c.task.Trial, c.rank, c.task.Restore.Donor, c.task.Restore.Step, err), remove())
	}
	return dir, remove, nil
}

// scratchFolder makes an empty temporary folder.
func scratchFolder() (dir string, remove func() error, err error) {
	temp, err := scratch.New("checkpoint")
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(temp.Path, "checkpoint")
	if err := os.Mkdir(dir, 0o777); err != nil {
		return "", nil, errors.Join(err, temp.Remove())
	}
	return dir, temp.Remove, nil
}

// copy copies in a connection of its own. If that breaks, another one goes on where it was, unless
// there is no progress for copyPatience.
func (c *Client) copy(ctx context.Context, kind copyKind, at func() position, do func(conn net.Conn, w *wire) error) error {
	tries := retry{at: at()}
	for {
		err := c.copyOnce(ctx, kind, do)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil || !errors.Is(err, errBroken) {
			return err
		}
		wait, ok := tries.broke(at(), time.Now())
		if !ok {
			return fmt.Errorf("no progress for %v: %w: %w", copyPatience, err, ErrGone)
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A retry says whether a copy tries again. Its patience begins when a connection breaks: one that
// copied for long may have made progress of which only the next connection hears.
type retry struct {
	// at is the newest position that the receiver has told.
	at position
	// since is when the first connection broke there; zero: none has.
	since time.Time
	wait  time.Duration
}

// broke says how long to wait before the next connection; ok is false if there has been no progress
// for copyPatience.
func (r *retry) broke(at position, now time.Time) (wait time.Duration, ok bool) {
	if at != r.at || r.since.IsZero() {
		*r = retry{at: at, since: now, wait: firstWait}
	}
	wait, r.wait = r.wait, min(2*r.wait, longestWait)
	return wait, now.Sub(r.since) <= copyPatience
}

// copyOnce is one connection of copy.
func (c *Client) copyOnce(ctx context.Context, kind copyKind, do func(conn net.Conn, w *wire) error) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return broken(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	w := newWire(conn)
	_ = conn.SetWriteDeadline(time.Now().Add(copyTimeout))
	if err := w.send(message{Hello: &hello{Version: version, Token: c.token, Rank: c.rank, Copy: kind}}); err != nil {
		return broken(err)
	}
	return do(conn, w)
}

// expect begins to wait for the files of a checkpoint that a rank saves.
func (x *Session) expect(rank int, dir string, began func()) *saving {
	s := &saving{rank, began, newTreeReceiver(dir, x.server.limit, x.backend.Alive)}
	x.mu.Lock()
	x.saving[rank] = s
	x.mu.Unlock()
	return s
}

// expectNothing ends that.
func (x *Session) expectNothing(s *saving) {
	x.mu.Lock()
	delete(x.saving, s.rank)
	for h, c := range x.copies {
		if h.Copy == copySave && h.Rank == s.rank {
			c.Close()
		}
	}
	x.mu.Unlock()
	s.close()
}

// copy serves a connection for the files of a checkpoint. A rank has one of each kind: a newer one
// replaces one that may be broken.
func (x *Session) copy(c net.Conn, w *wire, h hello) {
	x.mu.Lock()
	s := x.saving[h.Rank]
	switch {
	case x.over:
		x.mu.Unlock()
		return
	case !x.ranks.present[h.Rank]:
		x.mu.Unlock()
		_ = w.send(refuseText(fmt.Sprintf("rank %d of trial %d has not connected", h.Rank, x.task.Trial)))
		return
	}
	if older := x.copies[h]; older != nil {
		older.Close()
	}
	x.copies[h], x.conns[c] = c, true
	x.changed.Broadcast()
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		delete(x.conns, c)
		if x.copies[h] == c {
			delete(x.copies, h)
		}
		x.mu.Unlock()
	}()
	var err error
	switch {
	case h.Copy == copyRestore:
		err = x.sendRestore(c, w)
	case h.Copy == copyParts:
		err = x.askForParts(c, w, h)
	case h.Copy != copySave:
		err = fmt.Errorf("got copy %q, want %s, %s or %s", h.Copy, copySave, copyRestore, copyParts)
	case s == nil:
		err = fmt.Errorf("rank %d saves no checkpoint", h.Rank)
	default:
		s.began()
		if err = s.receive(c, w); err == nil {
			_ = c.SetWriteDeadline(time.Now().Add(copyTimeout))
			_ = w.send(message{Whole: &struct{}{}})
			return
		}
	}
	if err == nil || errors.Is(err, errBroken) {
		return
	}
	// What is still on its way is read, since the answer would be lost with a connection that
	// is closed over it.
	_ = c.SetDeadline(time.Now().Add(drainTimeout))
	m := refuse(err)
	m.Error.Gone = errors.Is(err, fs.ErrNotExist)
	if w.send(m) == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}

// drainTimeout bounds how long a process may take to read an error.
const drainTimeout = 5 * time.Second

// sendRestore sends the checkpoint to go on from.
func (x *Session) sendRestore(c net.Conn, w *wire) error {
	if x.task.Restore == nil {
		return fmt.Errorf("trial %d goes on from no checkpoint", x.task.Trial)
	}
	_ = c.SetReadDeadline(time.Now().Add(copyTimeout))
	m, err := w.receive()
	if err != nil {
		return broken(err)
	}
	if m.From == nil {
		return errors.New("got another message, want where the copy begins")
	}
	root, err := os.OpenRoot(x.task.Restore.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	all, err := listTree(root)
	if err != nil {
		return err
	}
	return sendTree(c, w, root, all, *m.From, x.backend.Alive)
}
