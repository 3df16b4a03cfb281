package allocate

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// amdahl scales with a part that does not, and loses some on more than one node.
func amdahl(serial float64) func(nodes, replicas int) float64 {
	return func(nodes, replicas int) float64 {
		return 100 / (serial + (1-serial)/float64(replicas) + 0.02*float64(nodes-1))
	}
}

func cluster(slots ...int) (nodes []Node) {
	for i, s := range slots {
		nodes = append(nodes, Node{Name: fmt.Sprintf("n%d", i), Slots: s})
	}
	return nodes
}

// randomCluster has jobs in all states, some on nodes that are gone.
func randomCluster(rng *rand.Rand) (nodes []Node, jobs []Job) {
	for i := range 1 + rng.IntN(8) {
		nodes = append(nodes, Node{Name: fmt.Sprintf("n%02d", i), Slots: rng.IntN(9)})
	}
	free := map[string]int{"gone": 3}
	wide := map[string]bool{}
	for _, n := range nodes {
		free[n.Name] = n.Slots
	}
	for i := range rng.IntN(20) {
		j := Job{ID: fmt.Sprintf("job-%d", i), Min: rng.IntN(4), NonPreemptible: rng.IntN(5) == 0, Age: time.Duration(rng.IntN(4)) * time.Hour / 2,
			Changes: rng.IntN(5), ChangeCost: time.Duration(rng.IntN(60)) * time.Second, Current: Allocation{}}
		if rng.IntN(3) > 0 {
			j.Max = max(j.Min, 1) + rng.IntN(20)
		}
		if rng.IntN(4) > 0 {
			j.Goodput = amdahl(rng.Float64() / 3)
			j.Remaining = rng.Float64() * 1e6 * float64(rng.IntN(2))
		}
		if rng.IntN(2) == 0 {
			names := slices.Sorted(maps.Keys(free))
			rng.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
			var on []string
			for _, name := range names[:1+rng.IntN(len(names))] {
				if free[name] > 0 && !wide[name] {
					on = append(on, name)
				}
			}
			for _, name := range on {
				r := 1 + rng.IntN(free[name])
				if j.Max > 0 {
					r = min(r, j.Max-j.Current.Replicas())
				}
				if r > 0 {
					j.Current[name] = r
					free[name] -= r
				}
			}
			if j.Current.Replicas() < max(j.Min, 1) {
				for name, r := range j.Current {
					free[name] += r
				}
				j.Current = nil
			}
			if j.Current.Nodes() > 1 {
				for name := range j.Current {
					wide[name] = true
				}
			}
		}
		jobs = append(jobs, j)
	}
	return nodes, jobs
}

// check holds what every division must keep.
func check(nodes []Node, jobs []Job, decisions []Decision) error {
	slots, used, wide := map[string]int{}, map[string]int{}, map[string]string{}
	for _, n := range nodes {
		slots[n.Name] = n.Slots
	}
	if len(decisions) != len(jobs) {
		return fmt.Errorf("%d decisions for %d jobs", len(decisions), len(jobs))
	}
	for i, d := range decisions {
		j, k := jobs[i], d.Allocation.Replicas()
		same := maps.Equal(d.Allocation, j.Current) || k == 0 && j.Current.Replicas() == 0
		switch {
		case d.ID != j.ID:
			return fmt.Errorf("decision %d is for %s, want %s", i, d.ID, j.ID)
		case k != 0 && (k < j.Min || j.Max > 0 && k > j.Max):
			// A job that is not preemptible keeps what it has.
			if !j.NonPreemptible || !same {
				return fmt.Errorf("%s got %d replicas, want 0 or %d to %d", d.ID, k, j.Min, j.Max)
			}
		case same == d.Changed:
			return fmt.Errorf("%s: Changed is %t from %v to %v", d.ID, d.Changed, j.Current, d.Allocation)
		case d.Reason == "":
			return fmt.Errorf("%s has no reason", d.ID)
		}
		intact := true
		for name, r := range j.Current {
			intact = intact && slots[name] >= r
		}
		if j.NonPreemptible && intact && j.Current.Replicas() > 0 && !same {
			return fmt.Errorf("%s is not preemptible and went from %v to %v", d.ID, j.Current, d.Allocation)
		}
		for name, r := range d.Allocation {
			if r < 1 {
				return fmt.Errorf("%s has %d replicas on %s", d.ID, r, name)
			}
			if used[name] += r; used[name] > slots[name] {
				return fmt.Errorf("node %s got %d replicas, has %d slots", name, used[name], slots[name])
			}
			if d.Allocation.Nodes() > 1 {
				if wide[name] != "" {
					return fmt.Errorf("node %s has both %s and %s, which span nodes", name, wide[name], d.ID)
				}
				wide[name] = d.ID
			}
		}
	}
	return nil
}

func TestDivisionsKeepTheRules(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		nodes, jobs := randomCluster(rng)
		c := Config{Objective: []Objective{Completion, Fair}[rng.IntN(2)], Fairness: []float64{0, -0.5, 0.5, 1, -3}[rng.IntN(5)]}
		decisions, err := Divide(c, nodes, jobs)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := check(nodes, jobs, decisions); err != nil {
			t.Fatalf("seed %d: %v\nnodes %v\ndecisions %+v", seed, err, nodes, decisions)
		}
		// Another order of nodes and jobs gives the same.
		byID := map[string]Decision{}
		for _, d := range decisions {
			byID[d.ID] = d
		}
		rng.Shuffle(len(nodes), func(a, b int) { nodes[a], nodes[b] = nodes[b], nodes[a] })
		rng.Shuffle(len(jobs), func(a, b int) { jobs[a], jobs[b] = jobs[b], jobs[a] })
		again, err := Divide(c, nodes, jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range again {
			if w := byID[d.ID]; !maps.Equal(w.Allocation, d.Allocation) || w.Reason != d.Reason {
				t.Fatalf("seed %d: %s got %v (%s), in another order %v (%s)", seed, d.ID, w.Allocation, w.Reason, d.Allocation, d.Reason)
			}
		}
	}
}

// after is what the jobs look like when decisions have been carried out and nothing else has
// happened.
func after(jobs []Job, decisions []Decision) []Job {
	jobs = slices.Clone(jobs)
	for i, d := range decisions {
		jobs[i].Current = d.Allocation
	}
	return jobs
}

// Asked again when nothing has happened, Divide soon leaves everything as it is. Mostly that is at
// once; where jobs did not fit on the nodes as was best for them, it may find better places from
// where they are now.
func TestNothingChangesWhenNothingHappens(t *testing.T) {
	again := 0
	const seeds = 300
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 2))
		nodes, jobs := randomCluster(rng)
		c := Config{Objective: []Objective{Completion, Fair}[rng.IntN(2)]}
		for call := 0; ; call++ {
			decisions, err := Divide(c, nodes, jobs)
			if err != nil {
				t.Fatal(err)
			}
			changed := slices.IndexFunc(decisions, func(d Decision) bool { return d.Changed })
			if call > 0 && changed < 0 {
				break
			}
			if call == 1 {
				again++
			}
			if call > 10 {
				t.Fatalf("seed %d: call %d still changes %+v", seed, call, decisions[changed])
			}
			jobs = after(jobs, decisions)
		}
	}
	if again > seeds/10 {
		t.Errorf("%d of %d clusters were not settled by the first decision", again, seeds)
	}
}

// Where the places that were found are worth less than what the jobs have, they keep it.
func TestWorsePlacesAreNotTaken(t *testing.T) {
	worse := 0
	for seed := uint64(390); seed < 500; seed++ { // it is rare
		nodes, jobs := randomCluster(rand.New(rand.NewPCG(seed, 4)))
		d := newDivision(Config{}.withDefaults(), nodes, jobs)
		d.place(d.sizes())
		moved := slices.ContainsFunc(d.decisions(), func(d Decision) bool { return d.Changed })
		if !moved || d.better() {
			continue
		}
		worse++
		decisions, err := Divide(Config{}, nodes, jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range decisions {
			if d.Changed {
				t.Fatalf("seed %d: %s changed to %v, %s", seed, d.ID, d.Allocation, d.Reason)
			}
		}
	}
	if worse == 0 {
		t.Error("no cluster was divided worse than it was")
	}
}

func TestLostNodeGivesItsSlotsBack(t *testing.T) {
	nodes := cluster(4, 4)
	jobs := []Job{
		{ID: "a", Min: 1, Goodput: amdahl(0.01), Remaining: 1e6, Current: Allocation{"n0": 4}, Age: time.Hour},
		{ID: "b", Min: 2, Goodput: amdahl(0.01), Remaining: 1e6, Current: Allocation{"n1": 4}, Age: time.Hour},
		{ID: "pinned", NonPreemptible: true, Goodput: amdahl(0.01), Remaining: 1e6, Current: Allocation{"gone": 4}, Age: time.Hour},
	}
	for _, objective := range []Objective{Completion, Fair} {
		decisions, err := Divide(Config{Objective: objective}, nodes, jobs)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(nodes, jobs, decisions); err != nil {
			t.Fatal(err)
		}
		d := decisions[2]
		if !d.Changed || !strings.Contains(d.Reason, "node gone no longer has its slots") {
			t.Errorf("objective %q: the job of the lost node: %+v", objective, d)
		}
		if objective == Fair && d.Allocation.Replicas() == 0 {
			t.Errorf("the job of the lost node got nothing: %+v", decisions)
		}
	}
}

func TestDecisions(t *testing.T) {
	linear := func(_, replicas int) float64 { return float64(replicas) }
	flat := func(_, replicas int) float64 { return 1 + 0.01*float64(replicas) }
	inside := func(nodes, replicas int) float64 { return float64(replicas) / float64(nodes*nodes) }
	for _, c := range []struct {
		name   string
		config Config
		nodes  []Node
		jobs   []Job
		want   []Allocation
		reason string // of the last job
	}{
		{"alone", Config{}, cluster(4), []Job{{ID: "a", Goodput: linear}}, []Allocation{{"n0": 4}}, "starts 4 replicas on n0"},
		{"no nodes", Config{}, nil, []Job{{ID: "a", Goodput: linear}}, []Allocation{nil}, "waits: the slots are worth more to other jobs"},
		{"at most Max", Config{}, cluster(4), []Job{{ID: "a", Goodput: linear, Max: 3}}, []Allocation{{"n0": 3}}, ""},
		{"at least Min", Config{}, cluster(2), []Job{{ID: "a", Goodput: linear, Min: 3}}, []Allocation{nil}, ""},
		{"no profile", Config{}, cluster(4, 4), []Job{{ID: "a"}}, []Allocation{{"n0": 4}}, "starts 4 replicas on n0: it has no profile yet"},
		{"no profiles", Config{}, cluster(4), []Job{{ID: "a"}, {ID: "b"}, {ID: "c"}}, []Allocation{{"n0": 1}, {"n0": 1}, {"n0": 1}}, ""},
		{"no profile, three at first", Config{First: 3}, cluster(8), []Job{{ID: "a"}}, []Allocation{{"n0": 3}}, ""},
		{"explores", Config{Growth: 2}, cluster(8), []Job{{ID: "a", Goodput: linear, Profiled: 2, Current: Allocation{"n0": 2}}}, []Allocation{{"n0": 4}},
			"grows from 2 to 4 replicas on n0: 2.00 times the goodput"},
		{"does not pay over nodes", Config{}, cluster(4, 4), []Job{{ID: "a", Goodput: inside}}, []Allocation{{"n0": 4}}, ""},
		{"fair halves", Config{Objective: Fair}, cluster(4), []Job{{ID: "a", Goodput: linear}, {ID: "b", Goodput: linear}}, []Allocation{{"n0": 2}, {"n0": 2}}, ""},
		{"fair to who scales badly", Config{Objective: Fair}, cluster(4), []Job{{ID: "a", Goodput: linear}, {ID: "b", Goodput: flat}}, []Allocation{{"n0": 3}, {"n0": 1}}, ""},
		{"short first", Config{}, cluster(4), []Job{{ID: "long", Goodput: linear, Remaining: 1000}, {ID: "short", Goodput: linear, Remaining: 10}},
			[]Allocation{nil, {"n0": 4}}, ""},
		{"short first, as far as it scales", Config{}, cluster(4), []Job{{ID: "long", Goodput: linear, Remaining: 1000}, {ID: "short", Goodput: flat, Remaining: 10}},
			[]Allocation{{"n0": 3}, {"n0": 1}}, ""},
		{"the older of equals first", Config{}, cluster(4), []Job{{ID: "a", Goodput: linear, Remaining: 1000, Age: time.Hour}, {ID: "b", Goodput: linear, Remaining: 1000, Age: 2 * time.Hour}},
			[]Allocation{nil, {"n0": 4}}, ""},
		{"pinned stays", Config{}, cluster(4), []Job{{ID: "new", Goodput: linear, Remaining: 1}, {ID: "pinned", Goodput: linear, Remaining: 1e6, NonPreemptible: true, Current: Allocation{"n0": 2}}},
			[]Allocation{{"n0": 2}, {"n0": 2}}, "keeps its allocation: it is not preemptible"},
		{"too little gained for a change", Config{Objective: Fair}, cluster(4), []Job{{ID: "a", Goodput: flat, Current: Allocation{"n0": 2}}}, []Allocation{{"n0": 2}},
			"keeps its allocation: no other is worth a change"},
		{"costs more than it gains", Config{}, cluster(4), []Job{{ID: "a", Goodput: linear, Remaining: 20, ChangeCost: 30 * time.Second, Current: Allocation{"n0": 2}}},
			[]Allocation{{"n0": 2}}, ""},
		{"stops for a short one", Config{}, cluster(2), []Job{{ID: "short", Goodput: linear, Remaining: 5}, {ID: "long", Goodput: linear, Remaining: 1e6, Current: Allocation{"n0": 2}}},
			[]Allocation{{"n0": 2}, nil}, "stops 2 replicas: the slots are worth more to other jobs"},
		{"one job over nodes on each node", Config{Objective: Fair}, cluster(3, 3), []Job{{ID: "a", Min: 4, Max: 4, Goodput: linear}, {ID: "b", Min: 2, Max: 2, Goodput: linear}},
			[]Allocation{{"n0": 3, "n1": 1}, {"n1": 2}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Divide(c.config, c.nodes, c.jobs)
			if err != nil {
				t.Fatal(err)
			}
			if err := check(c.nodes, c.jobs, got); err != nil {
				t.Fatal(err)
			}
			for i, want := range c.want {
				if !maps.Equal(got[i].Allocation, want) {
					t.Errorf("job %s got %v (%s), want %v", got[i].ID, got[i].Allocation, got[i].Reason, want)
				}
			}
			if last := got[len(got)-1]; c.reason != "" && last.Reason != c.reason {
				t.Errorf("reason %q, want %q", last.Reason, c.reason)
			}
		})
	}
}

func TestBadInputIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		nodes  []Node
		jobs   []Job
		want   string
	}{
		{"objective", Config{Objective: "speed"}, nil, nil, `Objective is "speed", want "" or "fair"`},
		{"first", Config{First: -1}, nil, nil, "First is -1"},
		{"growth", Config{Growth: 0.5}, nil, nil, "Growth is 0.5"},
		{"fairness", Config{Fairness: 2}, nil, nil, "Fairness is 2"},
		{"no fairness", Config{Fairness: math.NaN()}, nil, nil, "Fairness is NaN"},
		{"hysteresis", Config{Hysteresis: 1}, nil, nil, "Hysteresis is 1"},
		{"interval", Config{Interval: -1}, nil, nil, "Interval is -1ns"},
		{"same node", Config{}, []Node{{"a", 1}, {"a", 2}}, nil, `node "a" is listed twice`},
		{"slots", Config{}, []Node{{"a", -1}}, nil, `node "a" has -1 slots`},
		{"no ID", Config{}, nil, []Job{{}}, "a job has no ID"},
		{"same job", Config{}, nil, []Job{{ID: "a"}, {ID: "a"}}, `job "a" is listed twice`},
		{"bounds", Config{}, nil, []Job{{ID: "a", Min: 3, Max: 2}}, `job "a": Min is 3 and Max 2`},
		{"remaining", Config{}, nil, []Job{{ID: "a", Remaining: math.NaN()}}, `job "a": Remaining is NaN`},
		{"age", Config{}, nil, []Job{{ID: "a", Age: -1}}, `job "a": Age is -1ns`},
		{"current", Config{}, nil, []Job{{ID: "a", Current: Allocation{"b": -1}}}, `job "a" has -1 replicas on node "b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Divide(c.config, c.nodes, c.jobs); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}
