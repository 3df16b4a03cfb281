package curvetest_test

import (
	"fmt"

	"github.com/paragon-train/paragon/tune/curvetest"
	"github.com/paragon-train/paragon/tune/schedule"
)

// A search with eight workers by ASHA, for as long as ten full trainings take, without a training.
func Example() {
	p := curvetest.Draw(curvetest.Steady, 0)
	s, err := curvetest.NewStudySearch(p, curvetest.StudyConfig{Scheduler: &schedule.ASHA{MaxStep: p.Last}, Workers: 8, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	o, err := curvetest.Simulate(p, s, curvetest.Config{Workers: 8, Seed: 1, Trainings: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d steps of %d trials, regret between 0 and 50 points: %v\n", o.Steps, o.Trials, o.Regret[3] > 0 && o.Regret[3] < 50)
	// Output:
	// 270 steps of 42 trials, regret between 0 and 50 points: true
}
