package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/member/searchcontrol"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune/internal/nodes"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/internal/trialjob"
	"github.com/paragon-train/paragon/tune/jobs"
)

// defaultHostTimeout is Jobs.HostTimeout where it is zero.
const defaultHostTimeout = 10 * time.Minute

// runner runs attempts. It finds the nodes first, if need be.
func (j *Jobs) runner(ctx context.Context) (*trialjob.Runner, error) {
	return j.setup.get(nodeSource{j.HostFile, j.Cluster}, func() (*trialjob.Runner, error) {
		if err := j.checkNodes(); err != nil {
			return nil, err
		}
		set, err := nodes.Find(ctx, nodes.Config{HostFile: j.HostFile, Cluster: j.Cluster, Launch: j.launchProgram, SSH: j.SSH, Folder: j.Folder,
			SlowestProbe: slowestProbe, Changed: j.live.Due, Logger: j.logger()})
		if err != nil {
			return nil, err
		}
		return &trialjob.Runner{Nodes: set, Elastic: &j.live}, nil
	})
}

// checkNodes says which fields about the nodes are wrong.
func (j *Jobs) checkNodes() error {
	if err := agent.Supported(); err != nil {
		return fmt.Errorf("tune: Jobs: %w", nodes.WithoutLaunch(err))
	}
	switch {
	case j.Cluster != nil && j.HostFile != "":
		return errors.New("tune: Jobs.HostFile and Jobs.Cluster are set, want one of them")
	case j.Cluster != nil && j.Address == "":
		return errors.New("tune: Jobs.Cluster is set, but Jobs.Address is not: at which address do the nodes reach this machine?")
	case j.HostFile == "":
		return nil
	case j.Address == "":
		return errors.New("tune: Jobs.HostFile is set, but Jobs.Address is not: at which address do the hosts reach this machine?")
	case j.HostTimeout < 0:
		return fmt.Errorf("tune: Jobs.HostTimeout is %v: want 0 (%v) or more", j.HostTimeout, defaultHostTimeout)
	case j.NoServers && len(j.LaunchFlags) > 0:
		return errors.New("tune: Jobs.LaunchFlags are for jobs with servers: got Jobs.NoServers, too")
	}
	return nil
}

// Nodes is a table of the nodes: what each has and how much of it is in use.
func (j *Jobs) Nodes() (metrics.Table, error) {
	run, err := j.runner(context.Background())
	if err != nil {
		return metrics.Table{}, err
	}
	return run.Nodes.Table(), nil
}

// usage tells about all nodes; none before they were found.
func (j *Jobs) usage() []slots.Usage {
	run, err := j.runner(context.Background())
	if err != nil {
		return nil
	}
	return run.Nodes.Alloc.Usage()
}

// Room is how many trials with these resources can run at once, at least 1.
func (j *Jobs) Room(given Resources) (int, error) {
	run, err := j.runner(context.Background())
	if err != nil {
		return 0, err
	}
	return run.Nodes.Room(j.request(given)), nil
}

// Add adds a host while a search runs, by a line of a hosts file. Trials may run there at once. A
// host that is set aside is taken back.
func (j *Jobs) Add(ctx context.Context, line string) error {
	run, err := j.runner(ctx)
	if err != nil {
		return err
	}
	return run.Nodes.Add(ctx, line)
}

// Remove removes a host: no more trials start there, and those that run there run to their end.
func (j *Jobs) Remove(host string) error {
	run, err := j.runner(context.Background())
	if err != nil {
		return err
	}
	return run.Nodes.Remove(host)
}

// UploadFiles copies files to the folder on every host where trials run: Jobs.Folder, or the home
// folder. On this machine there is nothing to do.
func (j *Jobs) UploadFiles(ctx context.Context, files ...string) error {
	run, err := j.runner(ctx)
	if err != nil {
		return err
	}
	return run.Nodes.Upload(ctx, files...)
}

// keepHosts implements hostKeeper.
func (j *Jobs) keepHosts(ctx context.Context, r Resources, replicas int) error {
	run, err := j.runner(ctx)
	if err != nil {
		// The search has said so.
		return nil
	}
	need := nodes.Need{Trial: j.request(r), Replica: j.unit(r), Replicas: replicas, Timeout: defaultHostTimeout}
	if j.HostTimeout > 0 {
		need.Timeout = j.HostTimeout
	}
	return run.Nodes.Keep(ctx, need)
}

// serveHosts implements hostKeeper.
func (j *Jobs) serveHosts(folder string) (close func()) {
	run, err := j.runner(context.Background())
	if err != nil || !run.Nodes.AreHosts() {
		return func() {}
	}
	s, err := searchcontrol.Serve(folder, j.answer)
	if err != nil {
		j.logger().Warn("tune: cannot listen for launch tune add, remove and hosts; the hosts of this search cannot be changed", "error", err)
		return func() {}
	}
	return func() { _ = s.Close() }
}

// answer answers launch tune hosts, add and remove.
func (j *Jobs) answer(ctx context.Context, q searchcontrol.Request) (string, error) {
	var err error
	switch q.Op {
	case searchcontrol.Hosts:
	case searchcontrol.Add:
		err = j.Add(ctx, q.Host)
	case searchcontrol.Remove:
		err = j.Remove(q.Host)
	default:
		err = fmt.Errorf("tune: got the request %q, want %s, %s or %s", q.Op, searchcontrol.Hosts, searchcontrol.Add, searchcontrol.Remove)
	}
	if err != nil {
		return "", err
	}
	table, err := j.Nodes()
	return table.String(), err
}

// elasticFlags are flags of launch that an elastic trial's job has of the search.
var elasticFlags = []string{"elastic-training-enabled", "min-workers", "max-workers", "adapt-workers", "on-worker-loss", "n", "num-workers", "H", "hostfile"}

// Scalable implements Scaler.
func (j *Jobs) Scalable(r Resources, least int) error {
	given := j.given(r)
	switch {
	case j.NoServers:
		return fmt.Errorf("trials are elastic jobs with servers: got Jobs.NoServers, want it off")
	case given.Hosts > 0 || given.Slots > 0:
		return fmt.Errorf("Resources has %d hosts and %d slots for a trial: leave both out, since the scheduler decides how many replicas a trial has", given.Hosts, given.Slots)
	}
	for _, f := range j.LaunchFlags {
		if slices.Contains(elasticFlags, cutFlag(f)) {
			return fmt.Errorf("Jobs.LaunchFlags has %s: the trials are elastic jobs, and their replicas are the scheduler's", f)
		}
	}
	run, err := j.runner(context.Background())
	if err != nil {
		return err
	}
	if err := run.Nodes.Alloc.Fits(j.unit(r)); err != nil {
		return err
	}
	total := 0
	for _, n := range run.Nodes.Slots(j.unit(r)) {
		total += n.Slots
	}
	if total < least {
		return fmt.Errorf("a trial needs at least %d replicas, and the nodes have %d slots", least, total)
	}
	return nil
}

// cutFlag is the name of a flag of a command line, without its dashes and its value; "": it is
// none.
func cutFlag(word string) string {
	if !strings.HasPrefix(word, "-") {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name
}

// Slots implements Scaler.
func (j *Jobs) Slots(ctx context.Context, r Resources) ([]jobs.NodeSlots, error) {
	run, err := j.runner(ctx)
	if err != nil {
		return nil, err
	}
	return run.Nodes.Slots(j.unit(r)), nil
}

// States implements Scaler.
func (j *Jobs) States(ctx context.Context, trials []int) map[int]jobs.State {
	return j.live.States(ctx, trials)
}

// Scale implements Scaler.
func (j *Jobs) Scale(trial, attempt int, on jobs.Placement) { j.live.Scale(trial, attempt, on) }

// Changes implements Scaler.
func (j *Jobs) Changes() <-chan string { return j.live.Changes() }
