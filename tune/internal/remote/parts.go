package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/paragon-train/paragon/tune/internal/state"
)

// partsFolder is where the files of another host are while they come, in the folder of the
// checkpoint.
const partsFolder = ".tune-rank-"

// UnchangedFolder is where the files of rank 0's host are that are as the trial found them, in the
// folder of the checkpoint while it comes. What the other hosts have written replaces them.
const UnchangedFolder = ".tune-unchanged"

// A part is what the command has written on another host than rank 0's, of one checkpoint.
type part struct {
	// rank is the first one on the host.
	rank int
	step int
	dir  string
	in   *saving
	// asked says that the rank was asked for its part. The session's mu guards this and all
	// below.
	asked bool
	// done says that the part has come, or that err says why it will not.
	done bool
	err  error
}

// gathered are the parts of the checkpoint that rank 0 saves in dir.
type gathered struct {
	session *Session
	dir     string
	parts   []*part
}

// prepare makes folders for the parts of the other hosts.
func (x *Session) prepare(step int, dir string) (*gathered, error) {
	g := &gathered{session: x, dir: dir}
	if x.task.PerHost == 0 {
		return g, nil
	}
	for rank := x.task.PerHost; rank < x.task.Workers; rank += x.task.PerHost {
		to := filepath.Join(dir, partsFolder+strconv.Itoa(rank))
		if err := os.Mkdir(to, 0o777); err != nil {
			g.end()
			return nil, err
		}
		g.parts = append(g.parts, &part{rank: rank, step: step, dir: to, in: x.expect(rank, to, func() {})})
	}
	return g, nil
}

// begin asks for the parts. Rank 0 has taken its files: what the others had written before them is
// there.
func (g *gathered) begin() {
	x := g.session
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range g.parts {
		x.parts[p.rank] = p
	}
	x.changed.Broadcast()
}

// end forgets the parts.
func (g *gathered) end() {
	x := g.session
	for _, p := range g.parts {
		x.mu.Lock()
		delete(x.parts, p.rank)
		x.mu.Unlock()
		x.expectNothing(p.in)
	}
	g.parts = nil
}

// finish waits for the parts, and puts them into the checkpoint.
func (g *gathered) finish() error {
	if len(g.parts) == 0 {
		return nil
	}
	for _, p := range g.parts {
		if err := g.session.awaitPart(p); err != nil {
			return fmt.Errorf("files of rank %d's host: %w", p.rank, err)
		}
	}
	parts := g.parts
	g.end()
	limit := g.session.server.limit
	for _, p := range parts {
		limit -= p.in.bytes
	}
	if limit < 0 {
		return fmt.Errorf("%w: the files of the other hosts have %d bytes more than %d", errTooLarge, -limit, g.session.server.limit)
	}
	for _, p := range parts {
		if err := merge(g.dir, p.dir); err != nil {
			return err
		}
	}
	if err := merge(g.dir, filepath.Join(g.dir, UnchangedFolder)); err != nil {
		return err
	}
	return state.Check(g.dir, true)
}

// awaitPart waits until a part has come, or cannot come any more.
func (x *Session) awaitPart(p *part) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for !p.done {
		ended := x.ranks.ended(p.rank)
		switch {
		case x.over:
			return errors.New("the trial has ended")
		case ended:
			return fmt.Errorf("rank %d has ended", p.rank)
		}
		x.changed.Wait()
	}
	return p.err
}

// askForParts asks a rank for the parts of checkpoints until rank 0 has ended.
func (x *Session) askForParts(c net.Conn, w *wire, h hello) error {
	if x.task.PerHost == 0 || h.Rank == 0 || h.Rank != x.task.Leader(h.Rank) {
		return fmt.Errorf("rank %d of trial %d has no part in checkpoints of its own", h.Rank, x.task.Trial)
	}
	for {
		p, ended := x.nextPart(c, h)
		if p == nil && !ended {
			return nil
		}
		_ = c.SetWriteDeadline(time.Now().Add(sendTimeout))
		if ended {
			_ = w.send(message{Bye: &struct{}{}})
			return nil
		}
		err := w.send(message{Checkpoint: &checkpoint{p.step}})
		var m message
		if err == nil {
			m, err = w.receive()
		}
		if err != nil {
			x.partDone(p, broken(err))
			return broken(err)
		}
		switch {
		case m.Written == nil:
			err = errors.New("got another message, want that the files were written")
			x.partDone(p, err)
			return err
		case m.Written.Error != "":
			x.partDone(p, errors.New(m.Written.Error))
		case !p.in.complete():
			x.partDone(p, errors.New("not all of them came"))
		default:
			x.partDone(p, nil)
		}
	}
}

// nextPart waits for a part that the connection's rank is to copy. There is none when rank 0 has
// ended, or another connection has taken this one's place.
func (x *Session) nextPart(c net.Conn, h hello) (p *part, ended bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		p := x.parts[h.Rank]
		ended := x.ranks.ended(0)
		switch {
		case x.over || x.copies[h] != c:
			return nil, false
		case p != nil && !p.asked:
			p.asked = true
			return p, false
		case ended:
			return nil, true
		}
		x.changed.Wait()
	}
}

// partDone ends the wait for a part.
func (x *Session) partDone(p *part, err error) {
	x.mu.Lock()
	p.done, p.err = true, err
	x.changed.Broadcast()
	x.mu.Unlock()
}

// Parts copies to the search what write puts into a folder, for each checkpoint that rank 0 saves,
// and returns when rank 0 has ended. The first rank on each host but rank 0's calls it. Done may be
// called meanwhile.
func (c *Client) Parts(ctx context.Context, write func(dir string) error) error {
	asked := 0
	err := c.copy(ctx, copyParts, func() position { return position{Entry: asked} }, func(conn net.Conn, w *wire) error {
		for {
			m, err := w.receive()
			switch {
			case err != nil:
				return broken(err)
			case m.Error != nil:
				return &refusal{*m.Error}
			case m.Bye != nil:
				return nil
			case m.Checkpoint == nil:
				return errors.New("got another message, want the step of a checkpoint")
			}
			asked++
			done := written{Copied: true}
			if err := c.save(ctx, write); err != nil {
				done.Error = err.Error()
			}
			_ = conn.SetWriteDeadline(time.Now().Add(copyTimeout))
			if err := w.send(message{Written: &done}); err != nil {
				return broken(err)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("tune: trial %d rank %d: copy parts of checkpoints: %w", c.task.Trial, c.rank, err)
	}
	return nil
}

// merge moves the files of a folder to another one, but for those that are there already, and
// removes the folder.
func merge(to, from string) error {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if path == from && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
			return err
		}
		return os.Rename(path, target)
	})
	return errors.Join(err, os.RemoveAll(from))
}
