package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// A logLine is what every line of a JSON log has, and some attributes.
type logLine struct {
	Time                        time.Time
	Level                       slog.Level
	Msg, Job, Role, Host, Event string
	Rank, Process, PID          *int
	NodeRank                    *int `json:"node_rank"`
	NodePID                     int  `json:"node_pid"`
	ExitCode                    *int `json:"exit_code"`
	Status, Workers, Servers    int
	Failure                     string
	Record                      map[string]any
}

// jsonLog reads a JSON log, and refuses a line that lacks what every line has.
func jsonLog(t *testing.T, text string) (all []logLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l logLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%v in %q", err, line)
			continue
		}
		if l.Time.IsZero() || l.Role == "" || l.Rank == nil || l.Process == nil || l.PID == nil || l.Host == "" || !strings.Contains(line, `"job":"`) || !strings.Contains(line, `"msg":"`) {
			t.Errorf("a line lacks something: %s", line)
		}
		all = append(all, l)
	}
	return all
}

// countLines is how many lines are as wanted.
func countLines(all []logLine, ok func(logLine) bool) (n int) {
	for _, l := range all {
		if ok(l) {
			n++
		}
	}
	return n
}

// Every line on the standard error is a JSON object that says which process wrote it: launch, the
// scheduler, servers, workers, and what programs print themselves.
func TestTheLogOfAJobAsJSON(t *testing.T) {
	t.Parallel()
	needProc(t)
	l := startLauncher(t, "", "-n", "2", "-s", "1", "--log-format", "json", `echo "own text" >&2; echo '{"own":1}' >&2; exec `+self(t))
	if code := l.exit(t); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	all := jsonLog(t, l.stderr.String())
	job := all[len(all)-1].Job
	if job == "" {
		t.Errorf("the last line is of no job")
	}
	has := func(what string, want int, ok func(l logLine) bool) {
		t.Helper()
		if n := countLines(all, ok); n != want {
			t.Errorf("%s: %d lines, want %d", what, n, want)
		}
	}
	for _, tc := range []struct {
		role, event string
		lines       int
	}{
		{"launcher", "process_started", 4}, {"launcher", "process_ended", 4}, {"launcher", "job_started", 1}, {"launcher", "job_finished", 1},
		{"scheduler", "node_registered", 3}, {"scheduler", "generation", 1}, {"scheduler", "job_finished", 1},
		{"server", "node_joined", 1}, {"worker", "node_joined", 2},
	} {
		has(tc.role+" "+tc.event, tc.lines, func(l logLine) bool { return l.Role == tc.role && l.Event == tc.event && l.Job == job })
	}
	has("generation 1", 1, func(l logLine) bool { return l.Event == "generation" && l.Workers == 2 && l.Servers == 1 })
	for rank := range 2 {
		is := func(l logLine) bool { return l.Role == "worker" && *l.Rank == rank && l.Job == job && *l.Process > 0 }
		has(fmt.Sprint("joined ", rank), 1, func(l logLine) bool { return is(l) && l.Event == "node_joined" && *l.PID > 1 })
		has(fmt.Sprint("text of ", rank), 1, func(l logLine) bool { return is(l) && l.Event == "process_output" && l.Msg == "own text" && *l.PID > 1 })
		has(fmt.Sprint("JSON of ", rank), 1, func(l logLine) bool { return is(l) && l.Event == "process_output" && l.Record["own"] == 1. })
		if want := fmt.Sprintf("worker %d  | rank %[1]d of 2 has its sums at ", rank); !strings.Contains(l.stdout.String(), want) {
			t.Errorf("stdout has no line %q", want)
		}
	}
	wantNoProcess(t, job, time.Now())
}

// With --output json a JSON line of a process stays JSON, and a job that fails says so in the log
// with codes.
func TestTheLogOfAFailedJobAsJSON(t *testing.T) {
	t.Parallel()
	needProc(t)
	l := startWith(t, launchProgram, "", []string{"PARAGON_LOG_FORMAT=json"}, "-n", "1", "-s", "1", "--output", "json", `echo '{"own":1}' >&2; echo text >&2; echo '{"out":1}'; exit 3`)
	if code := l.exit(t); code != 3 {
		t.Fatalf("exit code %d, want 3", code)
	}
	var got []control.Line
	if err := control.ReadLines(strings.NewReader(l.stdout.String()), func(line control.Line) {
		if line.Role == control.Worker {
			got = append(got, line)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []control.Line{
		{Role: control.Worker, Stream: control.Stderr, Text: `{"own":1}`, Record: `{"own":1}`}, {Role: control.Worker, Stream: control.Stderr, Text: "text"},
		{Role: control.Worker, Stream: control.Stdout, Text: `{"out":1}`},
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %+v in %+v", want, got)
		}
	}
	all := jsonLog(t, l.stderr.String())
	if n := countLines(all, func(l logLine) bool {
		return l.Event == "job_failed" && l.Failure == "process_failed" && l.Level == slog.LevelError && l.ExitCode != nil && *l.ExitCode == 3 && l.NodeRank != nil && *l.NodeRank == 0
	}); n != 1 {
		t.Errorf("%d lines tell that worker 0 made the job fail, want 1", n)
	}
	if n := countLines(all, func(l logLine) bool { return l.Event == "process_ended" && l.Status == 3 && l.NodePID > 1 }); n != 1 {
		t.Errorf("%d lines tell that a process ended with 3, want 1", n)
	}
}

// What ends launch before there is a job is in the log, too, and a format that does not exist is a
// wrong command line.
func TestErrorsInTheLogFormat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		env, args, want string
		code            int
		json            bool
	}{
		{"", "-n 1 --log-format xml true", `launch: --log-format "xml" is unknown; want text or json`, command.ExitUsage, false},
		{"PARAGON_LOG_FORMAT=xml", "-n 1 true", `launch: --log-format "xml" is unknown; want text or json`, command.ExitUsage, false},
		{"", "tune --log-format xml study.yaml", `launch: --log-format "xml" is unknown; want text or json`, command.ExitUsage, false},
		{"DMLC_ROLE=server PARAGON_LOG_FORMAT=xml", "role", `launch: PARAGON_LOG_FORMAT="xml" is unknown; want text or json`, command.ExitUsage, false},
		{"", "-n 1 --log-format json --env PARAGON_LOG_FORMAT=text true", "PARAGON_LOG_FORMAT: launch sets this variable itself", command.ExitUsage, false},
		{"PARAGON_LOG_FORMAT=xml", "-n 1 --log-format json --result /proc/none/x true", "/proc/none/x", 1, true},
		{"DMLC_ROLE=x PARAGON_LOG_FORMAT=json", "role", `DMLC_ROLE is \"x\"`, command.ExitUsage, true},
	} {
		l := startWith(t, launchProgram, t.TempDir(), strings.Fields(tc.env), strings.Fields(tc.args)...)
		code := l.exit(t)
		if got := l.stderr.String(); code != tc.code || !strings.Contains(got, tc.want) {
			t.Errorf("%s launch %s: exit code %d, %q; want %d, %q", tc.env, tc.args, code, got, tc.code, tc.want)
		}
		if tc.json {
			jsonLog(t, l.stderr.String())
		}
	}
}
