package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// An Allocation is what Slurm has given to a job.
type Allocation struct {
	// Job is the ID of the allocation's job.
	Job string

	// Step is the one that this process runs in; empty: it is the batch script, or a shell of
	// salloc.
	Step string

	// Nodes are in the order of the nodelist.
	Nodes []Node
}

// A Node is one node of an allocation.
type Node struct {
	Name string

	// Tasks is how many may run there; 0: it is not given.
	Tasks int

	// CPUs is how many belong to the job; 0: it is not given.
	CPUs int
}

// Tasks is how many tasks all nodes have together; 0: Slurm does not say.
func (a Allocation) Tasks() (n int) {
	for _, node := range a.Nodes {
		n += node.Tasks
	}
	return n
}

// Names returns the names of the nodes.
func (a Allocation) Names() []string {
	names := make([]string, len(a.Nodes))
	for i, n := range a.Nodes {
		names[i] = n.Name
	}
	return names
}

// Hosts are the nodes as hosts of a job: a task is a slot.
func (a Allocation) Hosts() []hosts.Host {
	all := make([]hosts.Host, len(a.Nodes))
	for i, n := range a.Nodes {
		all[i] = hosts.Host{Name: n.Name, Slots: n.Tasks}
	}
	return all
}

// Inside reports whether this process is where launch should use Slurm by itself: in an allocation,
// and not in a step, since one of launch's own is for what it started.
func Inside(lookup func(string) (string, bool)) bool {
	for _, name := range []string{"SLURM_JOB_ID", "SLURM_JOB_NODELIST"} {
		if v, ok := lookup(name); !ok || v == "" {
			return false
		}
	}
	return step(lookup) == ""
}

// step is the step of srun that this process runs in. Slurm's own steps, the batch script and the
// shell of salloc, have the highest numbers of 32 bits.
func step(lookup func(string) (string, bool)) string {
	id, _ := lookup("SLURM_STEP_ID")
	if n, err := strconv.ParseUint(id, 10, 32); err != nil || n >= 0xfffffff0 {
		return ""
	}
	return id
}

// Read reads the allocation that this process runs in from its environment.
func Read(lookup func(string) (string, bool)) (Allocation, error) {
	job, _ := lookup("SLURM_JOB_ID")
	list, _ := lookup("SLURM_JOB_NODELIST")
	switch {
	case job == "" && list == "":
		return Allocation{}, fmt.Errorf("not inside a Slurm allocation: SLURM_JOB_ID is not set; " +
			"run launch in a batch script (launch slurm script writes one) or within salloc")
	case job == "" || list == "":
		return Allocation{}, fmt.Errorf("got SLURM_JOB_ID=%q and SLURM_JOB_NODELIST=%q, want both; pass Slurm's variables on to launch", job, list)
	}
	names, err := Expand(list)
	if err != nil {
		return Allocation{}, fmt.Errorf("SLURM_JOB_NODELIST: %w", err)
	}
	a := Allocation{Job: job, Step: step(lookup), Nodes: make([]Node, len(names))}

	// line has the line of each name, from 1.
	line := make(map[string]int)
	for i, name := range names {
		if first := line[name]; first > 0 {
			return Allocation{}, fmt.Errorf("SLURM_JOB_NODELIST: %s is node %d and node %d, want each once", name, first, i+1)
		}
		line[name] = i + 1
		a.Nodes[i].Name = name
	}
	for _, v := range []struct {
		name  string
		count func(*Node) *int
	}{
		{"SLURM_TASKS_PER_NODE", func(n *Node) *int { return &n.Tasks }},
		{"SLURM_JOB_CPUS_PER_NODE", func(n *Node) *int { return &n.CPUs }},
	} {
		text, ok := lookup(v.name)

		// A step has other tasks than the job.
		if !ok || a.Step != "" && v.name == "SLURM_TASKS_PER_NODE" {
			continue
		}
		counts, err := Counts(text)
		switch {
		case err != nil:
			return Allocation{}, fmt.Errorf("%s: %w", v.name, err)
		case len(counts) != len(names):
			return Allocation{}, fmt.Errorf("%s=%s describes %d nodes and SLURM_JOB_NODELIST=%s %d; want the same number", v.name, text, len(counts), list, len(names))
		}
		for i := range a.Nodes {
			*v.count(&a.Nodes[i]) = counts[i]
		}
	}
	return a, nil
}

// Example is the environment of an allocation with so many nodes and tasks, for Read.
func Example(nodes, tasksPerNode int) func(string) (string, bool) {
	env := map[string]string{
		"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": fmt.Sprintf("node[1-%d]", nodes), "SLURM_TASKS_PER_NODE": fmt.Sprintf("%d(x%d)", tasksPerNode, nodes),
	}
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

// maxCount bounds a number of tasks or processors of one node.
const maxCount = 1 << 20

// Counts reads numbers for each node as Slurm writes them: "2(x3),1" is 2 2 2 1.
func Counts(list string) (counts []int, err error) {
	if len(list) > maxListBytes {
		return nil, fmt.Errorf("a list of numbers has %d bytes, want at most %d", len(list), maxListBytes)
	}
	at := 0
	fail := func(at int, format string, args ...any) ([]int, error) {
		return nil, &SyntaxError{List: list, Position: at + 1, Problem: fmt.Sprintf(format, args...)}
	}
	for {
		item, _, more := strings.Cut(list[at:], ",")
		number, rest, repeated := strings.Cut(item, "(")
		n, ok := readCount(number)
		if !ok {
			return fail(at, "got %q, want a number from 1 to %d", number, maxCount)
		}
		times := 1
		if repeated {
			inside, closed := strings.CutSuffix(rest, ")")
			inside, marked := strings.CutPrefix(inside, "x")
			if times, ok = readCount(inside); !ok || !closed || !marked {
				return fail(at+len(number), "got %q, want a repetition such as (x3)", "("+rest)
			}
		}
		if times > maxNodes-len(counts) {
			return fail(at, "the list describes more than %d nodes", maxNodes)
		}
		for range times {
			counts = append(counts, n)
		}
		if at += len(item) + 1; !more {
			return counts, nil
		}
	}
}

// readCount reads digits alone.
func readCount(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil && n >= 1 && n <= maxCount
}
