package control

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// OpTelemetry asks for the newest values of all nodes (answer: Telemetry), OpSeries for past ones
// (answer: Series).
const (
	// OpTelemetry has the names of Metrics, as telemetry.Info has them; none: all.
	OpTelemetry = "telemetry"
	// OpSeries has Metrics, NodeIDs (none: all), SinceMillis (0: all that is known) and Points, of
	// which there are at most so many, the newest.
	OpSeries = "series"
)

// MaxPoints bounds the Points of one Series.
const MaxPoints = 4096

// Telemetry is the answer to OpTelemetry: the newest values of the job's processes.
type Telemetry struct {
	Error string `json:"error,omitempty"`
	Job   string `json:"job"`
	Phase string `json:"phase"`
	// Incarnation is another one after each start of the scheduler. What was before is not
	// known to this one.
	Incarnation uint64 `json:"incarnation"`
	// NowMillis and SinceMillis are times of the scheduler's clock, Unix: now, and when this scheduler
	// began.
	NowMillis   int64   `json:"now_ms"`
	SinceMillis int64   `json:"since_ms"`
	Generation  uint64  `json:"generation"`
	Columns     []Value `json:"columns"` // of each node's Values
	// Scores are the names of the user's own metrics. Name i belongs to column i of those
	// called test_score.
	Scores []string `json:"scores,omitempty"`
	// Nodes are those of Status: servers, then workers, by rank; then those that have gone
	// within the last minute.
	Nodes   []NodeTelemetry `json:"nodes"`
	LeftOut int             `json:"nodes_left_out,omitempty"` // that did not fit
	// Totals, Changes and Checkpoints are those of the job since this scheduler began, with the
	// processes that are gone too. Totals are by column the sums of counters over the processes; NaN:
	// the column is no counter.
	Totals Numbers `json:"totals"`
	// Changes are those of the membership by cause: ChangeJoined to ChangeRemoved.
	Changes     map[string]uint64 `json:"changes"`
	Checkpoints uint64            `json:"checkpoints"`
	// Slow names the workers that others wait for, the worst one first; none: no one in
	// particular.
	Slow []Slow `json:"slow,omitempty"`
}

// The causes of Changes.
const (
	// ChangeJoined: a worker or server became a member of the running job.
	ChangeJoined = "joined"
	// ChangeLeft: a member ended by itself.
	ChangeLeft = "left"
	// ChangeLost: a member was declared lost.
	ChangeLost = "lost"
	// ChangeRemoved: a member was asked to leave, or asked to.
	ChangeRemoved = "removed"
)

// NodeGone is the state, in Telemetry alone, of a process that has ended within the last minute.
const NodeGone = "gone"

// A Value names a column: a metric and the index of its label's value.
type Value struct {
	Metric string `json:"metric"`
	Index  int    `json:"index,omitempty"`
}

// NodeTelemetry is one process's newest values.
type NodeTelemetry struct {
	Node      uint64  `json:"node"`
	Role      string  `json:"role"`
	Rank      int32   `json:"rank"` // -1: none yet
	Host      string  `json:"host"`
	PID       uint32  `json:"pid"`
	Process   uint32  `json:"process,omitempty"`
	State     string  `json:"state"`  // NodeCounts to NodeRemoved, or NodeGone
	AgeMillis int64   `json:"age_ms"` // of Values; -1: none came
	Values    Numbers `json:"values"` // by column; NaN: the process has none
	// Of a worker: what the servers charge it with since their begin, in all. See
	// telemetry.Blame.
	BlamedRounds  uint64 `json:"blamed_rounds,omitempty"`
	BlamedSeconds Number `json:"blamed_seconds,omitempty"`
	// Of a worker, where Request.Steps asks for them: the last steps, oldest first. An answer
	// has those of at most MaxTraced workers.
	Steps []StepTimes `json:"steps,omitempty"`
}

// StepTimes says when a worker made one step, and where its time went.
type StepTimes struct {
	Step      uint64 `json:"step"`
	EndMicros int64  `json:"end_us"` // the scheduler's clock, Unix
	Total     Number `json:"total"`  // seconds
	Compute   Number `json:"compute"`
	Wait      Number `json:"wait"`
	Data      Number `json:"data"`
	Save      Number `json:"save"`
}

// Series is the answer to OpSeries: what the nodes' values were at equally spaced times.
type Series struct {
	Error       string `json:"error,omitempty"`
	Incarnation uint64 `json:"incarnation"`
	FromMillis  int64  `json:"from_ms"` // time of the first point, the scheduler's clock
	// StepMillis is the time between points: 1,000 for the last ten minutes, else 30,000 or a
	// multiple.
	StepMillis int64        `json:"step_ms"`
	Columns    []Value      `json:"columns"`
	Scores     []string     `json:"scores,omitempty"` // as in Telemetry
	Nodes      []NodeSeries `json:"nodes"`
	// LeftOut is how many nodes did not fit: ask for fewer metrics, nodes or points.
	LeftOut int `json:"nodes_left_out,omitempty"`
}

// NodeSeries are the past values of one node. Counters are as they were counted: rates are
// differences.
type NodeSeries struct {
	Node   uint64     `json:"node"`
	Values [][]Number `json:"values"` // by column, by time; NaN: no record came
}

func (t *Telemetry) refusal() (string, bool) { return t.Error, false }

func (t *Telemetry) check() error {
	if t.LeftOut < 0 {
		return fmt.Errorf("control: telemetry: %d nodes left out, want none below 0", t.LeftOut)
	}
	if err := checkPhase("telemetry", t.Phase); err != nil {
		return err
	}
	if err := checkColumns("telemetry", t.Columns); err != nil {
		return err
	}
	if err := checkScores("telemetry", t.Scores); err != nil {
		return err
	}
	if len(t.Totals) != len(t.Columns) {
		return fmt.Errorf("control: telemetry: %d totals, want %d", len(t.Totals), len(t.Columns))
	}
	for _, n := range t.Nodes {
		switch {
		case n.Role != Worker && n.Role != Server:
			return fmt.Errorf("control: telemetry: node %d: role %q: want worker or server", n.Node, n.Role)
		case !slices.Contains(nodeStates, n.State) && n.State != NodeGone:
			return fmt.Errorf("control: telemetry: node %d: state %q is not known", n.Node, n.State)
		case n.Rank < -1 || n.Rank > maxRank:
			return fmt.Errorf("control: telemetry: node %d: rank %d, want -1 to %d", n.Node, n.Rank, maxRank)
		case len(n.Values) != len(t.Columns):
			return fmt.Errorf("control: telemetry: node %d: %d values, want %d", n.Node, len(n.Values), len(t.Columns))
		}
	}
	return checkSlow("telemetry", t.Slow)
}

func checkColumns(of string, columns []Value) error {
	for _, c := range columns {
		if c.Metric == "" || c.Index < 0 {
			return fmt.Errorf("control: %s: column %q[%d]: want a metric, and an index from 0", of, c.Metric, c.Index)
		}
	}
	return nil
}

func checkScores(of string, names []string) error {
	if len(names) > telemetry.MaxScores {
		return fmt.Errorf("control: %s: %d names of scores, want at most %d", of, len(names), telemetry.MaxScores)
	}
	for _, name := range names {
		if !telemetry.IsScoreName(name) {
			return fmt.Errorf("control: %s: score %q: want letters, digits and _, at most %d", of, name, telemetry.MaxScoreName)
		}
	}
	return nil
}

func (s *Series) refusal() (string, bool) { return s.Error, false }

func (s *Series) check() error {
	if s.LeftOut < 0 {
		return fmt.Errorf("control: series: %d nodes left out, want none below 0", s.LeftOut)
	}
	if s.StepMillis < 1 {
		return fmt.Errorf("control: series: %d ms between points, want at least 1", s.StepMillis)
	}
	if err := checkColumns("series", s.Columns); err != nil {
		return err
	}
	if err := checkScores("series", s.Scores); err != nil {
		return err
	}
	for _, n := range s.Nodes {
		if len(n.Values) != len(s.Columns) {
			return fmt.Errorf("control: series: node %d: %d columns of values, want %d", n.Node, len(n.Values), len(s.Columns))
		}
		for _, v := range n.Values {
			if len(v) != len(n.Values[0]) {
				return fmt.Errorf("control: series: node %d: columns of %d and %d values, want as many in each", n.Node, len(n.Values[0]), len(v))
			}
		}
	}
	return nil
}
