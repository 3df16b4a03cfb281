package job

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/outcomes"
)

// wantedCores are the present cores. At each rest their scheduler also says what it wants.
type wantedCores struct{ presentCores }

func (c wantedCores) Scheduler(j *outcomes.Job, now time.Time, journal outcomes.Journal) outcomes.Scheduler {
	return wantedScheduler{c.presentCores.Scheduler(j, now, journal).(*comparedScheduler)}
}

type wantedScheduler struct{ *comparedScheduler }

// Status adds to the state of the number of workers how many processes are wanted, and which are
// still to end.
func (s wantedScheduler) Status() outcomes.Status {
	status := s.comparedScheduler.Status()
	s.looks++
	said := s.Step(s.now, s.looks, &wire.Control{Request: `{"op":"wanted","wait_ms":1}`}, "")
	for _, a := range said.Answers {
		if a.Request != s.looks {
			continue
		}
		var w control.Wanted
		if err := json.Unmarshal([]byte(a.Message.(*wire.Report).Answer), &w); err != nil {
			panic(err)
		}
		run, ending := make(map[string]int), 0
		for _, p := range w.Processes {
			if p.Goal == control.GoalRun {
				run[p.Role]++
			} else if p.Goal != control.GoalOver {
				ending++
			}
		}
		status.Scale += fmt.Sprintf(" wants %d workers, %d servers, %d to end", run[control.Worker], run[control.Server], ending)
	}
	return status
}

var (
	wantsSaid   = regexp.MustCompile(`wants (\d+) workers, (\d+) servers, (\d+) to end`)
	runningSaid = regexp.MustCompile(`(worker|server)(?:\*(\d+))?[ )]`)
)

// At each rest just those processes run that the scheduler wants: none is wanted for ever that does
// not come, and none is to end for ever that is gone. Either would keep a job from changing.
func TestWhatIsWantedRuns(t *testing.T) {
	seeds := uint64(300)
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		seeds = 20_000
	}
	outcomes.All(0, seeds, wantedCores{}, func(o *outcomes.Outcome) {
		for _, rest := range o.Rests {
			wants := wantsSaid.FindStringSubmatch(rest)
			at := strings.LastIndex(rest, "running, ")
			if wants == nil || at < 0 {
				continue
			}
			there, _, _ := strings.Cut(rest[at:], " scale ")
			there, _, _ = strings.Cut(there, " servers ")
			run := make(map[string]int)
			for _, m := range runningSaid.FindAllStringSubmatch(there, -1) {
				n, err := strconv.Atoi(m[2])
				if err != nil {
					n = 1
				}
				run[m[1]] += n
			}
			if got := []string{"", strconv.Itoa(run["worker"]), strconv.Itoa(run["server"]), "0"}; got[1] != wants[1] || got[2] != wants[2] || got[3] != wants[3] {
				t.Errorf("seed %d: %s workers and %s servers run:\n%s", o.Plan.Seed, got[1], got[2], rest)
			}
		}
	})
}
