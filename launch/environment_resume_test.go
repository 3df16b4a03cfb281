package main

import "testing"

func TestResumeCommandIsTheCommandWithItsVariable(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"launch", "-n", "2", "--", "cifar10", "--lr", "0.1"}, "launch --env PARAGON_RESUME=1 -n 2 -- cifar10 --lr 0.1"},
		{[]string{"bin/launch", "--env", "PARAGON_RESUME=1", "cifar10"}, "bin/launch --env PARAGON_RESUME=1 cifar10"},
		{[]string{"launch", "train --name 'x y'"}, `launch --env PARAGON_RESUME=1 'train --name '\''x y'\'''`},
	} {
		if got := resumeCommand(tc.args); got != tc.want {
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
		e := environment{all: tc.all, workers: tc.workers}
		if got := e.resumes(func(string) string { return tc.own }); got != tc.want {
			t.Errorf("own %q, --env %q, --env-worker %q: got %t, want %t", tc.own, tc.all, tc.workers, got, tc.want)
		}
	}
}
