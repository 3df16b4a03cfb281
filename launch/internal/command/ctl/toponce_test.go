package ctl

import (
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/top"
)

func TestTopOnceIsATable(t *testing.T) {
	nan := control.Number(math.NaN())
	d := &top.Document{
		Telemetry: &control.Telemetry{Job: "3f2a", Phase: control.Running, Generation: 2, LeftOut: 1,
			Slow: []control.Slow{{Rank: 1, Host: "h1", Share: .94, Rounds: 310, Gap: .041, StepSeconds: .34, Cause: control.SlowCompute, Ratio: 1.31}}},
		Rates: top.Snapshot{Job: top.Job{Steps: 3, Examples: 384, Step: 40, Epoch: 1, Loss: .5, LearningRate: .1},
			Workers: []top.Worker{
				{Process: top.Process{Rank: 0, Host: "h0", PID: 11, State: control.NodeCounts}, Step: 40, Epoch: 1, Loss: .25, Examples: 192, StepTime: .34, Compute: .2, Wait: .13, Data: 0, Last: .06, Gap: .001},
				{Process: top.Process{Rank: 1, Host: "h1", PID: 12, State: control.NodeJoining}, Step: nan, Epoch: nan, Loss: nan, Examples: nan, StepTime: nan, Compute: nan, Wait: nan, Data: nan, Last: .94, Gap: .041}},
			Servers: []top.Server{{Process: top.Process{Rank: 0, Host: "h0", PID: 10, State: control.NodeCounts, Sent: 2048, Received: 4096}, Rounds: 30, RoundTime: .02, Waiting: 1, Held: 100, Values: 1 << 20}}},
		Waits: []control.Wait{{Who: "worker 0", At: "barrier x", For: "worker 1", Seconds: 2.5}},
	}
	const want = `job 3f2a: running, generation 2, 2 workers, 1 server
3 steps/s, 384 examples/s, epoch 1, step 40, loss 0.5
worker 1 on h1 is slow: last in 94 % of the last 310 rounds, 41 ms after the others (12 % of a step); its compute takes 1.31 times the others'.

rank  host  pid  state       epoch  step  examples/s  step time  compute   wait  data  loss  came last  late by
----  ----  ---  ----------  -----  ----  ----------  ---------  -------  -----  ----  ----  ---------  -------
   0  h0     11  in the job      1    40         192      340ms    200ms  130ms    0s  0.25      6.0 %      1ms
   1  h1     12  joining                                                                        94.0 %     41ms

server  host  pid  state       rounds/s  round  waiting  gradients held  values  sent/s  received/s
------  ----  ---  ----------  --------  -----  -------  --------------  ------  ------  ----------
     0  h0     10  in the job        30   20ms        1  100             1M      2K      4K

who       waits  at         for
--------  -----  ---------  --------
worker 0  2.5s   barrier x  worker 1

1 more node did not fit into the answer
`
	var b strings.Builder
	if err := writeTop(&b, d); err != nil || b.String() != want {
		t.Errorf("error %v, got\n%s\nwant\n%s", err, b.String(), want)
	}
}
