package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/launch/internal/command"
)

// metricsAt scrapes until the answer has all lines that begin so.
func (l *launcher) metricsAt(t *testing.T, url string, want ...string) string {
	t.Helper()
	got := ""
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(50 * time.Millisecond) {
		answer, err := http.Get(url)
		if err != nil {
			got = err.Error()
			continue
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		got = string(body)
		missing := false
		for _, w := range want {
			missing = missing || !strings.Contains(got, "\n"+w)
		}
		if err == nil && answer.StatusCode == http.StatusOK && !missing {
			return got
		}
	}
	t.Fatalf("%s has not all of %q:\n%s", url, want, got)
	return ""
}

// The scheduler serves the metrics of all processes. One that is started again serves them at the
// same address.
func TestMetricsOfARunningJob(t *testing.T) {
	t.Parallel()
	j := startElastic(t, "--metrics-listen", "127.0.0.1:0")
	url := regexp.MustCompile(`metrics for Prometheus: (http://127\.0\.0\.1:\d+/metrics)`).FindStringSubmatch(j.stderr.String())
	if url == nil {
		t.Fatal("the log has no address of the metrics")
	}
	processes := []string{`paragon_worker_steps_total{host="localhost",node="`, `paragon_server_rounds_total{host="localhost",node="`, `paragon_worker_loss{`, `paragon_worker_resident_bytes{`,
		`paragon_job_phase{phase="running"} 1`, `paragon_job_nodes{role="worker",state="counts"} 2`}
	body := j.metricsAt(t, url[1], processes...)
	if promtool, err := exec.LookPath("promtool"); err == nil {
		check := exec.Command(promtool, "check", "metrics")
		check.Stdin = strings.NewReader(body)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v: %s", err, out)
		}
	}
	start := regexp.MustCompile(`(?m)^paragon_job_scheduler_start_timestamp_seconds .*$`).FindString(body)
	kill(t, j.process(t, "scheduler", 0))
	j.await(t, "scheduler on localhost listens again at ")
	if body = j.metricsAt(t, url[1], processes...); start == "" || strings.Contains(body, start) {
		t.Errorf("after another start of the scheduler it still says %q", start)
	}
	j.finish(t)
	if _, err := http.Get(url[1]); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the job: got %v, want a refused connection", err)
	}
}

// A port that is in use is an error before anything has begun; so is what is no address.
func TestMetricsNeedAnAddressThatCanBeUsed(t *testing.T) {
	t.Parallel()
	needProc(t)
	for _, c := range []struct {
		addr, want string
		code       int
	}{
		{"9464", `--metrics-listen: address "9464": want host:port`, command.ExitUsage},
		{"192.0.2.1:9464", "--metrics-listen: prom: listen for scrapes: listen tcp 192.0.2.1:9464", 1},
	} {
		l := startLauncher(t, "", "-n", "1", "-s", "1", "--metrics-listen", c.addr, "true")
		if code := l.exit(t); code != c.code || !strings.Contains(l.stderr.String(), c.want) {
			t.Errorf("%s: exit code %d, want %d, and %q in\n%s", c.addr, code, c.code, c.want, l.stderr)
		}
	}
}

// Each worker and server serves its own metrics where that is wanted, and the scheduler says where:
// a Prometheus finds them.
func TestMetricsOfEachProcess(t *testing.T) {
	t.Parallel()
	j := startElastic(t, "--metrics-listen", "127.0.0.1:0", "--process-metrics", "127.0.0.1")
	url := regexp.MustCompile(`metrics for Prometheus: (http://127\.0\.0\.1:\d+)/metrics`).FindStringSubmatch(j.stderr.String())
	if url == nil {
		t.Fatal("the log has no address of the metrics")
	}
	var groups []struct {
		Targets []string
		Labels  map[string]string
	}
	for begin := time.Now(); len(groups) != 3; time.Sleep(50 * time.Millisecond) {
		answer, err := http.Get(url[1] + "/sd/processes")
		if err == nil {
			err = json.NewDecoder(answer.Body).Decode(&groups)
			answer.Body.Close()
		}
		if time.Since(begin) > patience {
			t.Fatalf("/sd/processes has %v (%v), want two workers and a server", groups, err)
		}
	}
	for _, g := range groups {
		want := map[string]string{"worker": `paragon_worker_steps_total{host="localhost",node="`, "server": `paragon_server_rounds_total{host="localhost",node="`}[g.Labels["paragon_role"]]
		body := j.metricsAt(t, "http://"+g.Targets[0]+"/metrics", want)
		if strings.Contains(body, "paragon_job") {
			t.Errorf("%v serves what is the job's:\n%s", g, body)
		}
	}
	j.finish(t)
	if _, err := http.Get("http://" + groups[0].Targets[0] + "/metrics"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the job: got %v, want a refused connection", err)
	}
}
