package tune_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
)

// unsharedVariable names the search's folder, which the trials of unsharedHosts must not see.
const unsharedVariable = "PARAGON_TEST_UNSHARED"

// unsharedWait is set where trials wait for the loss of their host.
const unsharedWait = "PARAGON_TEST_UNSHARED_WAIT"

// unsharedTrial goes on where its checkpoint ends, and reports whether another host saved it. Trial
// 1 is killed once, while it writes a checkpoint, or with unsharedWait waits there for the loss of
// its host.
func unsharedTrial(r *tune.Reporter) error {
	for _, path := range []string{os.Getenv(unsharedVariable), "runs"} {
		if entries, err := os.ReadDir(path); len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("this host has the search's files: %s: %v, %v", path, entries, err)
		}
	}
	if folder, err := r.Folder(); folder != "" || err != nil {
		return fmt.Errorf("the trial's folder is %q, %v, want none on this host", folder, err)
	}
	here, from, moved := os.Getenv("HERE"), 0, 0.0 // of the host's shell
	if dir, step, ok := r.Restore(); ok {
		b, err := os.ReadFile(filepath.Join(dir, "deep", "state"))
		if err != nil {
			return err
		}
		was, host := 0, ""
		if _, err := fmt.Sscan(string(b), &was, &host); err != nil || was != step {
			return fmt.Errorf("the checkpoint of step %d holds %q: %v", step, b, err)
		}
		if from = step; host != here {
			moved = 1
		}
	}
	for step := from + 1; step <= 4; step++ {
		err := r.Checkpoint(step, func(dir string) error {
			if r.Trial() == 1 && r.Attempt() == 1 && step == 2 {
				if os.Getenv(unsharedWait) == "" {
					self, _ := os.FindProcess(os.Getpid())
					_ = self.Kill()
				}
				select {}
			}
			if err := os.Mkdir(filepath.Join(dir, "deep"), 0o777); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "deep", "state"), fmt.Appendf(nil, "%d %s", step, here), 0o666)
		})
		if err != nil {
			return err
		}
		if err := r.Report(step, map[string]float64{"value": float64(step - 10*r.Trial()), "moved": moved}); err != nil {
			return err
		}
	}
	return nil
}

// unsharedHosts are hosts over ssh, of one slot each, that see nothing of the search's folder, and
// have a folder of their own each. Their temporary folders must be empty in the end.
func unsharedHosts(t *testing.T, count int) (s *sshtest.Server, j *tune.Jobs, log *syncBuffer) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds launch and starts processes")
	}
	sshtest.Program(t, "rsync", "rsync")
	unshare := sshtest.Program(t, "unshare", "util-linux") + " -m"
	if os.Getuid() != 0 {
		unshare += "r"
	}
	s = sshtest.Start(t, count)
	root := t.TempDir()
	dirs := []string{"start/runs/earlier", "empty", "job"}
	for _, a := range s.Addresses {
		dirs = append(dirs, a+"/tmp")
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"start/data": "data", "start/runs/earlier/log.jsonl": "", "start/runs/earlier/large": "x",
		"host.sh": strings.ReplaceAll(`set -- $SSH_CONNECTION
HERE=$3 TMPDIR=ROOT/job/tmp exec `+unshare+` sh -c 'mount --bind ROOT/empty ROOT/start && mount --bind "ROOT/$HERE" ROOT/job && exec sh -c "$SSH_ORIGINAL_COMMAND"'
`, "ROOT", root)} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", filepath.Join(root, "host.sh"))
	cmd.Env = append(os.Environ(), "SSH_CONNECTION=a b "+s.Addresses[0]+" d", "SSH_ORIGINAL_COMMAND=true")
	if out, err := cmd.CombinedOutput(); err != nil {
		sshtest.Skip(t, "this user may not mount folders in a namespace: %v: %s", err, out)
	}
	if err := s.Force("sh " + filepath.Join(root, "host.sh")); err != nil {
		t.Fatal(err)
	}
	launch := launchProgram(t)
	t.Chdir(filepath.Join(root, "start"))
	file := filepath.Join(root, "hosts")
	lines := ""
	for _, a := range s.Addresses {
		lines += fmt.Sprintf("%s:%d slots=1 gpus=0 cpus=1\n", a, s.Port)
	}
	if err := os.WriteFile(file, []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv(kindVariable, "unshared")
	t.Setenv(unsharedWait, os.Getenv(unsharedWait)) // launch passes on what is set
	t.Setenv(unsharedVariable, filepath.Join(root, "start", "runs"))
	log = &syncBuffer{}
	t.Cleanup(func() { // each agent removes what killed processes left, when it ends: that of a host that was lost a moment later
		for end := time.Now().Add(15 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			left, err := filepath.Glob(filepath.Join(root, "127.*", "tmp", "*"))
			if err == nil && len(left) == 0 {
				return
			}
			if err != nil || time.Now().After(end) {
				t.Errorf("%q are left on the hosts, %v", left, err)
				return
			}
		}
	})
	return s, &tune.Jobs{HostFile: file, Address: "127.0.0.1", SSH: strings.Join(s.Client, " "), Launch: launch, Folder: filepath.Join(root, "job"),
		LaunchFlags: []string{"--env", kindVariable, "--env", unsharedVariable, "--env", unsharedWait}, Logger: slog.New(slog.NewTextHandler(log, nil))}, log
}

// alone has trials run as processes without launch, which does not set their variables then.
func alone(j *tune.Jobs) {
	j.NoServers, j.LaunchFlags = true, nil
	j.Command = []string{"/usr/bin/env", kindVariable + "=unshared", unsharedVariable + "=" + os.Getenv(unsharedVariable), unsharedWait + "=" + os.Getenv(unsharedWait), os.Args[0]}
}

// wantUnbroken checks that a trial reported each step once.
func wantUnbroken(t *testing.T, x tune.Trial) {
	t.Helper()
	for i, r := range x.Reports {
		if r.Step != i+1 {
			t.Errorf("trial %d: report %d is of step %d: a step was skipped or repeated", x.Number, i, r.Step)
		}
	}
}

// Checkpoints follow trials from host to host through the search, whose folder is a relative path:
// where trials continue from others' checkpoints, are promoted, and are retried.
func TestCheckpointsFollowTrialsToHostsThatShareNoFiles(t *testing.T) {
	_, j, log := unsharedHosts(t, 2)
	pbt := func(x tune.Trial) bool {
		return x.State == tune.Completed && lastStep(&x) == 4 && (x.Number == 1) == (len(x.Changes) > 0)
	}
	for _, tc := range []struct {
		name      string
		scheduler tune.Scheduler
		trials    int
		ends      func(x tune.Trial) bool
	}{
		{"servers", &schedule.PBT{Population: 2, Interval: 2, Quantile: 0.5, Synchronous: true}, 2, pbt},
		{"pbt", &schedule.PBT{Population: 2, Interval: 2, Quantile: 0.5, Synchronous: true}, 2, pbt},
		{"promotion", &schedule.ASHA{Rule: schedule.Promotion, MinStep: 2, MaxStep: 4, Eta: 2}, 4, func(x tune.Trial) bool {
			return lastStep(&x) == 2 || x.State == tune.Completed && lastStep(&x) == 4
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name != "pbt" && os.Getenv("PARAGON_TEST_SLOW") == "" {
				t.Skip("takes some seconds; set PARAGON_TEST_SLOW=1")
			}
			if tc.name != "servers" {
				alone(j)
			}
			cfg := jobsConfig(t, j)
			cfg.Dir = filepath.Join("runs", tc.name)
			cfg.Space = tune.Space{tune.Grid("x", []any{1, 2, 3, 4}[:tc.trials]...)}
			cfg.Scheduler, cfg.Logger = tc.scheduler, slog.New(slog.NewTextHandler(io.Discard, nil))
			result := mustRun(t, cfg)
			moved, continued := 0.0, 0
			for _, x := range result.Trials() {
				if !tc.ends(x) {
					t.Errorf("trial %d is %s at step %d after %d attempts with %d changes: %s %s", x.Number, x.State, lastStep(&x), x.Attempts, len(x.Changes), x.Failure, x.Error)
				}
				wantUnbroken(t, x)
				for _, r := range x.Reports {
					if m, ok := r.Metrics.Get("moved"); ok {
						moved += m
					}
				}
				if lastStep(&x) == 4 && x.Attempts > 1+x.Failures[tune.NodeLost] {
					continued++
				}
				if x.Number == 1 && x.Failures[tune.NodeLost] != 1 {
					t.Errorf("trial 1 failed %v, want one lost process", x.Failures)
				}
			}
			if tc.name != "promotion" && moved == 0 || continued == 0 {
				t.Errorf("%v reports followed a checkpoint of the other host, %d trials were paused and went on to the end: want some", moved, continued)
			}
			if t.Failed() {
				t.Log(log.String())
			}
		})
	}
	if _, err := os.Stat(filepath.Join("runs", "pbt", "log.jsonl")); err != nil { // the trials check that theirs have no such folder
		t.Error(err)
	}
	if want := "already: 1 file, 0.0 MB, without runs/earlier, runs/"; strings.Count(log.String(), want) != 1 {
		t.Errorf("the log is\n%s\nwant once: %s", log.String(), want)
	}
}

// A trial whose host is lost goes on from its checkpoint on another host.
func TestATrialGoesOnWhenItsHostThatSharesNoFilesIsLost(t *testing.T) {
	for _, servers := range []bool{true, false} {
		t.Run(fmt.Sprintf("servers=%t", servers), func(t *testing.T) {
			if os.Getenv("PARAGON_TEST_SLOW") == "" {
				t.Skip("takes some seconds; set PARAGON_TEST_SLOW=1")
			}
			t.Setenv(unsharedWait, "yes")
			s, j, log := unsharedHosts(t, 2)
			if !servers {
				alone(j)
			}
			cfg := jobsConfig(t, j)
			cfg.Dir, cfg.Parallel = filepath.Join("runs", "lost"), 1
			cfg.Space = tune.Space{tune.Grid("x", 1, 2)}
			cfg.Observers = []tune.Observer{&atEvents{call: map[string]func(){"report 1": func() { s.Lose(t, s.Addresses[0]) }}}} // the first one with a free slot
			x := mustRun(t, cfg).Trials()[1]
			wantUnbroken(t, x)
			if x.State != tune.Completed || lastStep(&x) != 4 || x.Failures[tune.UserCode] > 0 || x.Failures[tune.NodeLost] != 1 {
				t.Errorf("trial 1 is %s at step %d after failures %v: %s, want it completed at step 4 after one lost node", x.State, lastStep(&x), x.Failures, x.Error)
			}
			if m, _ := x.Reports[len(x.Reports)-1].Metrics.Get("moved"); m != 1 {
				t.Errorf("it ended on %s, want it to go on with a checkpoint of the host %s, which was lost", x.Location, s.Addresses[0])
			}
			if t.Failed() {
				t.Log(log.String())
			}
		})
	}
}

// acknowledge makes a file in the folder for each report that has come.
type acknowledge string

func (dir acknowledge) Observe(_ tune.View, e tune.Event) {
	if e.Kind == tune.EventReport {
		_ = os.WriteFile(filepath.Join(string(dir), fmt.Sprintf("%d-%d", e.Trial, e.Step)), nil, 0o666)
	}
}

// A command's folder follows its trial from host to host: it goes on there after a pause, and after
// its host was lost.
func TestACommandsFolderFollowsItsTrialFromHostToHost(t *testing.T) {
	s, j, log := unsharedHosts(t, 2)
	j.NoServers, j.LaunchFlags, j.Checkpoints = true, nil, true
	j.Command = []string{"/bin/sh", "-c"}
	reported := t.TempDir() // a step is done when its report and with it the folder's copy is with the search
	j.CommandFor = func(command []string, a tune.Attempt) ([]string, error) {
		script := `n=$(cat DIR/deep/n 2>/dev/null || echo 0); was=$(cat DIR/host 2>/dev/null || echo $HERE); from=$n moved=0; [ $was = $HERE ] || moved=1
while [ $n -lt 6 ]; do
	n=$((n+1)); mkdir -p DIR/deep; echo $n > DIR/n.new; mv DIR/n.new DIR/deep/n; echo $HERE > DIR/host; echo "value=$n from=$from moved=$moved step=$n"
	if [ NUMBER = 1-1 -a $n = 2 ]; then sleep 1000; fi
	while [ ! -e REPORTED-$n ]; do sleep 0.02; done
done`
		return append(command, strings.NewReplacer("DIR", "'"+a.Checkpoint+"'", "REPORTED", filepath.Join(reported, strconv.Itoa(a.Trial)), "NUMBER", fmt.Sprintf("%d-%d", a.Trial, a.Number)).Replace(script)), nil
	}
	cfg := jobsConfig(t, j)
	cfg.Dir, cfg.Parallel = filepath.Join("runs", "command"), 1
	cfg.Space, cfg.Scheduler = tune.Space{tune.Grid("x", 1)}, pauseTrial0{}
	slow := os.Getenv("PARAGON_TEST_SLOW") != ""
	if slow {
		cfg.Space = tune.Space{tune.Grid("x", 1, 2)} // trial 1 loses its host
	}
	cfg.Observers = []tune.Observer{&atEvents{call: map[string]func(){"report 1": func() { s.Lose(t, s.Addresses[0]) }}}, acknowledge(reported)}
	result := mustRun(t, cfg)
	for _, x := range result.Trials() {
		wantUnbroken(t, x)
		if x.State != tune.Completed || lastStep(&x) != 6 || x.Failures[tune.UserCode] > 0 {
			t.Errorf("trial %d is %s at step %d after failures %v: %s, want it completed at step 6", x.Number, x.State, lastStep(&x), x.Failures, x.Error)
		}
	}
	paused := result.Trials()[0]
	if from, _ := paused.Reports[len(paused.Reports)-1].Metrics.Get("from"); paused.Attempts != 2 || from != 3 {
		t.Errorf("trial 0 went on from step %v in %d attempts, want step 3 in 2", from, paused.Attempts)
	}
	if !slow {
		return
	}
	x := result.Trials()[1]
	if m, _ := x.Reports[len(x.Reports)-1].Metrics.Get("moved"); m != 1 || x.Failures[tune.NodeLost] != 1 {
		t.Errorf("trial 1 ended on %s after failures %v, want it to go on with a checkpoint of %s, which was lost", x.Location, x.Failures, s.Addresses[0])
	}
	if t.Failed() {
		t.Log(log.String())
	}
}

// A job's folder follows its trial from host to host as that of a single process does. All of its
// workers have the same folder, with what the trial goes on from: after a pause, after its host was
// lost, and with the state of another trial.
func TestAJobsFolderFollowsItsTrialFromHostToHost(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes some seconds; set PARAGON_TEST_SLOW=1")
	}
	s, j, log := unsharedHosts(t, 2)
	text, err := os.ReadFile(j.HostFile)
	if err == nil {
		err = os.WriteFile(j.HostFile, []byte(strings.ReplaceAll(string(text), "slots=1 gpus=0 cpus=1", "slots=2 gpus=0 cpus=2")), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	j.LaunchFlags, j.Checkpoints, j.Resources = nil, true, tune.Resources{Slots: 2, Servers: 1}
	j.Command = []string{"/bin/sh", "-c"}
	reported := ""
	j.CommandFor = func(command []string, a tune.Attempt) ([]string, error) {
		// Rank 1 writes what it finds; rank 0 begins when that is there, and ends before
		// it.
		script := `n=$(cat DIR/deep/n 2>/dev/null || echo 0)
if [ $PARAGON_RANK = 1 ]; then
	echo $n > DIR/seen.new; mv DIR/seen.new DIR/seen-NUMBER
	while [ ! -e DIR/over-NUMBER ]; do [ -d DIR ] || exit 1; sleep 0.02; done
	sleep 1; [ -d DIR ]
	exit
fi
was=$(cat DIR/host 2>/dev/null || echo $HERE); from=$n moved=0; [ $was = $HERE ] || moved=1
while [ ! -e DIR/seen-NUMBER ]; do sleep 0.02; done
while [ $n -lt 6 ]; do
	n=$((n+1)); mkdir -p DIR/deep; echo $n > DIR/n.new; mv DIR/n.new DIR/deep/n; echo $HERE > DIR/host
	echo "value=$((n-10*TRIAL)) from=$from seen=$(cat DIR/seen-NUMBER) moved=$moved step=$n"
	while [ ! -e REPORTED-$n ]; do sleep 0.02; done
done
touch DIR/over-NUMBER`
		return append(command, strings.NewReplacer("DIR", "'"+a.Checkpoint+"'", "REPORTED", filepath.Join(reported, strconv.Itoa(a.Trial)),
			"NUMBER", fmt.Sprintf("%d-%d", a.Trial, a.Number), "TRIAL", strconv.Itoa(a.Trial)).Replace(script)), nil
	}
	search := func(t *testing.T, scheduler tune.Scheduler, trials int, call map[string]func()) []tune.Trial {
		reported = t.TempDir()
		cfg := jobsConfig(t, j)
		cfg.Dir, cfg.Parallel = filepath.Join("runs", strings.ReplaceAll(t.Name(), "/", "-")), trials
		cfg.Space, cfg.Scheduler = tune.Space{tune.Grid("x", []any{1, 2}[:trials]...)}, scheduler
		cfg.Observers = []tune.Observer{&atEvents{call: call}, acknowledge(reported)}
		all := mustRun(t, cfg).Trials()
		for _, x := range all {
			wantUnbroken(t, x)
			if x.State != tune.Completed || lastStep(&x) != 6 || x.Failures[tune.UserCode] > 0 {
				t.Errorf("trial %d is %s at step %d after failures %v: %s, want it completed at step 6", x.Number, x.State, lastStep(&x), x.Failures, x.Error)
			}
			for _, r := range x.Reports {
				from, _ := r.Metrics.Get("from")
				if seen, ok := r.Metrics.Get("seen"); !ok || seen != from {
					t.Errorf("trial %d step %d: rank 1 found step %v in its folder, rank 0 step %v: want the same", x.Number, r.Step, seen, from)
				}
			}
		}
		if t.Failed() {
			t.Log(log.String())
		}
		return all
	}
	newest := func(x tune.Trial, name string) float64 {
		if len(x.Reports) == 0 {
			return -1
		}
		v, _ := x.Reports[len(x.Reports)-1].Metrics.Get(name)
		return v
	}
	t.Run("pause", func(t *testing.T) {
		x := search(t, pauseTrial0{}, 1, nil)[0]
		if x.Attempts != 2 || newest(x, "from") != 3 {
			t.Errorf("it went on from step %v in %d attempts, want step 3 in 2", newest(x, "from"), x.Attempts)
		}
	})
	t.Run("pbt", func(t *testing.T) {
		x := search(t, &schedule.PBT{Population: 2, Interval: 2, Quantile: 0.5, Synchronous: true}, 2, nil)[1]
		if len(x.Changes) == 0 || newest(x, "from") == 0 {
			t.Errorf("trial 1 went on from step %v with %d changes, want the state of trial 0", newest(x, "from"), len(x.Changes))
		}
	})
	t.Run("lost host", func(t *testing.T) { // the last one: the host stays away
		x := search(t, tune.FIFO{}, 1, map[string]func(){"report 0": func() { s.Lose(t, s.Addresses[0]) }})[0]
		if newest(x, "moved") != 1 || newest(x, "from") == 0 || x.Failures[tune.NodeLost] != 1 {
			t.Errorf("it ended on %s with reports from step %v on after failures %v, want it to go on with a checkpoint of %s, which was lost",
				x.Location, newest(x, "from"), x.Failures, s.Addresses[0])
		}
	})
}

// A trial of several hosts that share no files keeps checkpoints, too: all of its workers begin
// with the same files, and each finds its own of the step that the others go on from. So it is
// after a pause, after the host of a worker other than rank 0 was lost, and with the state of
// another trial.
func TestAFolderFollowsATrialOfSeveralHosts(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes some seconds; set PARAGON_TEST_SLOW=1")
	}
	s, j, log := unsharedHosts(t, 4)
	j.LaunchFlags, j.Checkpoints, j.Resources = nil, true, tune.Resources{Hosts: 2, Slots: 1, Servers: 1}
	j.Command = []string{"/bin/sh", "-c"}
	meet := ""
	j.CommandFor = func(command []string, a tune.Attempt) ([]string, error) {
		// The workers meet in a folder of the test. As in a job that calls worker.Fit, rank
		// 0 completes a step that the others have written.
		script := `n=$(cat DIR/deep/n 2>/dev/null || echo 0); own=$(cat DIR/deep/own-$PARAGON_RANK 2>/dev/null || echo 0); from=$n
if [ $PARAGON_RANK = 1 ]; then
	was=$(cat DIR/deep/host 2>/dev/null || echo $HERE); moved=0; [ $was = $HERE ] || moved=1
	echo "seen=$n own=$own moved=$moved" > MEET-seen.new; mv MEET-seen.new MEET-seen
	while [ $n -lt 6 ]; do
		n=$((n+1)); mkdir -p DIR/deep; echo $n > DIR/own.new; mv DIR/own.new DIR/deep/own-1; echo $HERE > DIR/deep/host; echo bad > DIR/deep/n; touch MEET-1-$n
		while [ ! -e REPORTED-$n ]; do [ -d DIR ] || exit 1; sleep 0.02; done
	done
	exit
fi
while [ ! -e MEET-seen ]; do sleep 0.02; done
while [ $n -lt 6 ]; do
	n=$((n+1))
	while [ ! -e MEET-1-$n ]; do sleep 0.02; done
	mkdir -p DIR/deep; echo $n > DIR/n.new; mv DIR/n.new DIR/deep/n; echo $n > DIR/deep/own-0
	echo "value=$((n-10*TRIAL)) from=$from own0=$own $(cat MEET-seen) step=$n"
	while [ ! -e REPORTED-$n ]; do sleep 0.02; done
done`
		return append(command, strings.NewReplacer("DIR", "'"+a.Checkpoint+"'", "REPORTED", filepath.Join(meet, strconv.Itoa(a.Trial)),
			"MEET", filepath.Join(meet, fmt.Sprintf("at-%d-%d", a.Trial, a.Number)), "TRIAL", strconv.Itoa(a.Trial)).Replace(script)), nil
	}
	search := func(t *testing.T, scheduler tune.Scheduler, trials int, call map[string]func()) []tune.Trial {
		meet = t.TempDir()
		cfg := jobsConfig(t, j)
		cfg.Dir, cfg.Parallel = filepath.Join("runs", strings.ReplaceAll(t.Name(), "/", "-")), trials
		cfg.Space, cfg.Scheduler = tune.Space{tune.Grid("x", []any{1, 2}[:trials]...)}, scheduler
		cfg.Observers = []tune.Observer{&atEvents{call: call}, acknowledge(meet)}
		all := mustRun(t, cfg).Trials()
		for _, x := range all {
			wantUnbroken(t, x)
			if x.State != tune.Completed || lastStep(&x) != 6 || x.Failures[tune.UserCode] > 0 {
				t.Errorf("trial %d is %s at step %d after failures %v: %s, want it completed at step 6", x.Number, x.State, lastStep(&x), x.Failures, x.Error)
			}
			for _, r := range x.Reports {
				from, _ := r.Metrics.Get("from")
				for _, name := range []string{"seen", "own", "own0"} {
					if found, ok := r.Metrics.Get(name); !ok || found != from {
						t.Errorf("trial %d step %d: %s is %v, want the step %v that rank 0 goes on from", x.Number, r.Step, name, found, from)
					}
				}
			}
		}
		if t.Failed() {
			t.Log(log.String())
		}
		return all
	}
	newest := func(x tune.Trial, name string) float64 {
		if len(x.Reports) == 0 {
			return -1
		}
		v, _ := x.Reports[len(x.Reports)-1].Metrics.Get(name)
		return v
	}
	t.Run("pause", func(t *testing.T) {
		x := search(t, pauseTrial0{}, 1, nil)[0]
		if x.Attempts != 2 || newest(x, "from") != 3 {
			t.Errorf("it went on from step %v in %d attempts, want step 3 in 2", newest(x, "from"), x.Attempts)
		}
	})
	t.Run("pbt", func(t *testing.T) {
		x := search(t, &schedule.PBT{Population: 2, Interval: 2, Quantile: 0.5, Synchronous: true}, 2, nil)[1]
		if len(x.Changes) == 0 || newest(x, "from") == 0 {
			t.Errorf("trial 1 went on from step %v with %d changes, want the state of trial 0", newest(x, "from"), len(x.Changes))
		}
	})
	t.Run("lost host", func(t *testing.T) { // the last one: the host stays away
		x := search(t, tune.FIFO{}, 1, map[string]func(){"report 0": func() { s.Lose(t, s.Addresses[1]) }})[0]
		if newest(x, "moved") != 1 || newest(x, "from") == 0 || x.Failures[tune.NodeLost] != 1 {
			t.Errorf("it ended on %s with reports from step %v on after failures %v, want it to go on with a checkpoint of %s, which was lost",
				x.Location, newest(x, "from"), x.Failures, s.Addresses[1])
		}
	})
}

// pauseTrial0 pauses trial 0 at step 3, and goes on with it.
type pauseTrial0 struct{ tune.FIFO }

func (pauseTrial0) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	d := tune.Go()
	if x := v.Trial(trial); trial == 0 && lastStep(x) == 3 && x.Attempts == 1 {
		d.Action = tune.Pause
	}
	return d
}

func (pauseTrial0) Next(v tune.View) tune.TrialChoice {
	if x := v.Trial(0); x != nil && x.State == tune.Paused {
		return tune.TrialChoice{Kind: tune.ChoosePaused}
	}
	return tune.TrialChoice{}
}
