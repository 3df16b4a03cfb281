package hostsource

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// A Source is asked which hosts there are. The answer is a whole list, each host once, or an error.
type Source interface {
	Ask(ctx context.Context) ([]Instance, error)

	// String is the flag that names the source, for messages.
	String() string

	Close() error
}

// A Job is asked how its hosts are, once all its workers have joined, and for a host that is not in
// it once more.
type Job interface {
	Hosts(ctx context.Context) ([]control.Host, error)
	Again(ctx context.Context, h hosts.Host) error
}

// Config says what a Follower follows. All fields must be set.
type Config struct {
	Source Source

	// Interval is the time between the beginnings of two questions.
	Interval time.Duration

	// Force says that no removal is held back.
	Force bool
	// Progress is told which hosts are waited for, each time that this changes, and "" at the
	// end.
	Progress func(text string)
	Logger   *slog.Logger
}

// A Follower keeps the hosts of one job as a source says. Its methods may not be called together.
type Follower struct {
	cfg     Config
	plan    plan
	retries retries

	// What was told last, so that it is told once.
	failure, held, unknown, waiting string
}

// New makes a Follower.
func New(cfg Config) *Follower { return &Follower{cfg: cfg, retries: make(retries)} }

// Close gives the source up.
func (f *Follower) Close() error { return f.cfg.Source.Close() }

// Await asks until the hosts have slots for so many workers, and returns those hosts. A host
// without slots counts as one.
func (f *Follower) Await(ctx context.Context, workers int) ([]hosts.Host, error) {
	tick := time.NewTicker(f.cfg.Interval)
	defer tick.Stop()
	defer f.cfg.Progress("")
	for state := "no answer has come yet"; ; {
		all, now := f.first(ctx, workers)
		if all != nil {
			return all, nil
		}

		// Otherwise nobody has answered.
		if ctx.Err() == nil {
			state = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("launch: %s: wait for hosts with slots for %d workers: %w; %s", f.cfg.Source, workers, context.Cause(ctx), state)
		}
	}
}

// first asks once. It returns the hosts if they are enough, else how things stand.
func (f *Follower) first(ctx context.Context, workers int) (all []hosts.Host, state string) {
	answer, ok := f.ask(ctx)
	if !ok {
		return nil, "the last request failed: " + f.failure
	}
	slots := 0
	var others []Instance
	for _, i := range answer {
		if i.State != Usable {
			others = append(others, i)
			continue
		}
		all = append(all, i.Host)
		slots += max(i.Host.Slots, 1)
	}
	if slots >= workers {
		return all, ""
	}
	state = fmt.Sprintf("%d of %d slots are there (%s)", slots, workers, entries(all))
	if len(others) > 0 {
		state += ", not running yet: " + list(others)
	}
	if f.waiting != state && ctx.Err() == nil {
		f.waiting = state
		f.cfg.Progress(fmt.Sprintf("waiting for hosts of %s: %s", f.cfg.Source, state))
	}
	return nil, state
}

// Follow edits files as the source says, until ctx ends.
func (f *Follower) Follow(ctx context.Context, files *hostworker.Files, job Job) {
	tick := time.NewTicker(f.cfg.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if answer, ok := f.ask(ctx); ok {
			f.tryAgain(ctx, f.carryOut(answer, files), job)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// ask asks the source. That it fails, and that it answers again, is told once.
func (f *Follower) ask(ctx context.Context) (answer []Instance, ok bool) {
	answer, err := f.cfg.Source.Ask(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, false
	case err != nil && err.Error() != f.failure:
		f.failure = err.Error()
		f.cfg.Logger.Warn(fmt.Sprintf("%s: %v; no host is added or removed until it answers", f.cfg.Source, err))
	case err == nil && f.failure != "":
		f.failure = ""
		f.cfg.Logger.Info(fmt.Sprintf("%s answers again", f.cfg.Source))
	}
	return answer, err == nil
}

// carryOut writes what an answer asks for into host_worker. It returns the running hosts that were
// there before.
func (f *Follower) carryOut(answer []Instance, files *hostworker.Files) (running []hosts.Host) {
	listed, err := files.Read()
	if err != nil {
		// The job reads the file, too, and says what is wrong.
		return nil
	}
	next, s := f.plan.next(answer, listed, f.cfg.Force)
	if err := files.Edit(s.edit); err != nil {
		f.cfg.Logger.Error(err.Error())
		return nil
	}
	f.plan = next
	if text := editText(s.edit); text != "" {
		f.cfg.Logger.Info(fmt.Sprintf("%s: %s", f.cfg.Source, text))
	}
	text := ""
	if len(s.held) > 0 {
		text = fmt.Sprintf("%s would remove %s, %d of its %d hosts in the job, more than half of them; no host is removed. If they should leave, "+
			"remove them (launch ctl remove HOST), or start the job with --hosts-force", f.cfg.Source, list(s.held), len(s.held), s.managed)
		if f.cfg.Force {
			text = fmt.Sprintf("%s would remove all hosts of the job: %s; they stay until there are others", f.cfg.Source, list(s.held))
		}
	}
	f.tell(&f.held, text)
	text = ""
	if len(s.unknown) > 0 {
		text = fmt.Sprintf("%s: unknown states: %s; nothing changes for these hosts; known states are running, pending, stopping and others (docs/how-to/clouds.md)", f.cfg.Source, list(s.unknown))
	}
	f.tell(&f.unknown, text)
	for _, h := range listed {
		if k := next.known[h.Key()]; k.usable {
			running = append(running, k.host)
		}
	}
	return running
}

// tell warns if a text is not what was told last.
func (f *Follower) tell(last *string, text string) {
	if text != *last && text != "" {
		f.cfg.Logger.Warn(text)
	}
	*last = text
}

// tryAgain asks the job once more for running hosts that are not in it.
func (f *Follower) tryAgain(ctx context.Context, running []hosts.Host, job Job) {
	now, err := job.Hosts(ctx)
	if err != nil {
		// The scheduler is being started again, or the job ends.
		return
	}
	for _, h := range f.retries.due(time.Now(), f.cfg.Interval, running, now) {
		// The job has said before why the host cannot be added.
		_ = job.Again(ctx, h)
	}
}

// maxListed bounds the hosts that a message names.
const maxListed = 20

func list[T fmt.Stringer](all []T) string {
	var b strings.Builder
	for n, x := range all {
		if n == maxListed {
			fmt.Fprintf(&b, " and %d more", len(all)-n)
			break
		}
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString(x.String())
	}
	return b.String()
}

// A hostEntry is a host as a hosts file has it.
type hostEntry hosts.Host

func (e hostEntry) String() string { return hosts.Host(e).Entry() }

func entries(all []hosts.Host) string {
	if len(all) == 0 {
		return "none"
	}
	named := make([]hostEntry, len(all))
	for i, h := range all {
		named[i] = hostEntry(h)
	}
	return list(named)
}

func editText(c hostworker.Change) string {
	var texts []string
	for _, part := range []struct {
		verb string
		all  []hosts.Host
	}{{"removes", c.Removed}, {"adds", c.Added}, {"changes", c.Resized}} {
		if len(part.all) > 0 {
			texts = append(texts, part.verb+" "+entries(part.all))
		}
	}
	return strings.Join(texts, ", ")
}
