package control

import (
	"strings"
	"testing"
)

func TestSlowIsASentence(t *testing.T) {
	s := Slow{Node: 9, Rank: 3, Host: "h2", Share: .943, Rounds: 310, Gap: .0411, Steps: 310, Seconds: 30, StepSeconds: .342, Cause: SlowCompute, Ratio: 1.3149}
	for _, tc := range []struct {
		change func(s *Slow)
		want   string
	}{
		{func(s *Slow) {}, "worker 3 on h2 is slow: last in 94 % of the last 310 rounds, 41 ms after the others (12 % of a step); its compute takes 1.31 times the others'"},
		{func(s *Slow) { s.Gap, s.Cause, s.Ratio = 1.04, SlowData, 4 }, "1.0 s after the others (304 % of a step); its wait for data takes 4.00 times the others'"},
		{func(s *Slow) { s.Gap, s.StepSeconds, s.Cause, s.Ratio = 12.34, 40, SlowData, 0 }, "12 s after the others (31 % of a step); its wait for data takes far longer than the others'"},
		{func(s *Slow) { s.Gap, s.StepSeconds, s.Cause = .0024, .01, SlowNetwork }, "2.4 ms after the others (24 % of a step); its compute and its data take no longer than the others', so its network is slow or its host is busy"},
		{func(s *Slow) { s.Gap, s.StepSeconds, s.Cause = .0000451, 0, "" }, "last in 94 % of the last 310 rounds, 45 µs after the others"},
	} {
		x := s
		tc.change(&x)
		if got := x.String(); !strings.HasSuffix(got, tc.want) {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func TestWhyIsStrictAboutWhoIsSlow(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{"waits":[],"slow":[{"node":4,"rank":3,"host":"h2","share":0.94,"rounds":310,"gap":0.041,"steps":310,"seconds":30,"step_seconds":0.34,"cause":"compute","ratio":1.31}]}`, ""},
		{`{"waits":[],"slow":[{"node":4,"gap":-1}]}`, "why: slow node 4: -1, want 0 to"},
		{`{"waits":[],"slow":[{"node":4,"ratio":1e300}]}`, "slow node 4: 1e+300"},
		{`{"waits":[],"slow":[{"node":4,"cause":"moon"}]}`, `slow node 4: cause "moon" is not known`},
		{`{"waits":[],"slow":[{"node":4,"rank":-2}]}`, "slow node 4: rank -2"},
		{`{"waits":[],"slow":[{"node":4,"luck":2}]}`, `unknown field "luck"`},
	} {
		err := DecodeAnswer([]byte(tc.text), &Why{})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want an error with %q", tc.text, err, tc.want)
		}
	}
}
