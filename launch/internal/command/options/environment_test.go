package options

import (
	"slices"
	"testing"
)

func TestResumeCommandIsTheCommandWithItsVariable(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"launch", "-n", "2", "--", "cifar10", "--lr", "0.1"}, "launch --env PARAGON_RESUME=1 -n 2 -- cifar10 --lr 0.1"},
		{[]string{"bin/launch", "--env", "PARAGON_RESUME=1", "cifar10"}, "bin/launch --env PARAGON_RESUME=1 cifar10"},
		{[]string{"launch", "train --name 'x y'"}, `launch --env PARAGON_RESUME=1 'train --name '\''x y'\'''`},
	} {
		if got := ResumeCommand(tc.args); got != tc.want {
			t.Errorf("%q: got %s, want %s", tc.args, got, tc.want)
		}
	}
}

func TestResumeIsAskedForByTheWorkersEnvironment(t *testing.T) {
	for _, tc := range []struct {
		own          string
		all, workers []string
		want         bool
	}{
		{"", nil, nil, false},
		{"1", nil, nil, true},
		{"", []string{"PARAGON_RESUME=1"}, nil, true},
		{"", nil, []string{"PARAGON_RESUME=1"}, true},
		{"1", []string{"PARAGON_RESUME="}, nil, false},
		{"1", []string{"PARAGON_RESUMED=1"}, []string{"PARAGON_RESUME="}, false},
	} {
		e := Environment{All: tc.all, Workers: tc.workers}
		if got := e.Resumes(func(string) string { return tc.own }); got != tc.want {
			t.Errorf("own %q, --env %q, --env-worker %q: got %t, want %t", tc.own, tc.all, tc.workers, got, tc.want)
		}
	}
}

// Where launch counts its own PARAGON_RESUME as asked for, workers on other hosts must get it:
// otherwise their first start would begin anew, and a restart would go on from whatever run lies in
// the folder.
func TestResumeReachesWorkersOnOtherHosts(t *testing.T) {
	own := map[string]string{"PARAGON_RESUME": "1", "PARAGON_SECRET_FILE": "/nowhere"}
	lookup := func(name string) (string, bool) { v, ok := own[name]; return v, ok }
	if got := (Environment{}).ForRemote(lookup); !slices.Equal(got, []string{"PARAGON_RESUME=1"}) {
		t.Errorf("variables of processes on other hosts: got %q, want PARAGON_RESUME=1 alone", got)
	}
	e := Environment{All: []string{"PARAGON_RESUME="}}
	if got := e.ForRemote(lookup); !slices.Equal(got, []string{"PARAGON_RESUME=1", "PARAGON_RESUME="}) {
		t.Errorf("variables of processes on other hosts: got %q, want that of --env last", got)
	}
}
