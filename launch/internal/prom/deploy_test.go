package prom

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/internal/member/control"
)

// What users load into Prometheus and Grafana.
const deploy = "../../../deploy/prometheus"

// tool finds a program of Debian's package prometheus, or skips the test; under
// PARAGON_TEST_REQUIRE=all it fails.
func tool(t *testing.T, name string) string {
	t.Helper()
	program, err := exec.LookPath(name)
	if err == nil {
		return program
	}
	if os.Getenv("PARAGON_TEST_REQUIRE") == "all" {
		t.Fatalf("PARAGON_TEST_REQUIRE=all, and there is no %s", name)
	}
	t.Skipf("there is no %s here (Debian's package prometheus has it)", name)
	return ""
}

func promtool(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool(t, "promtool"), args...)
	cmd.Stdin, cmd.Dir = strings.NewReader(stdin), deploy
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestPromtoolFindsNothingInAScrape(t *testing.T) {
	t.Parallel()
	for _, v := range []*control.Telemetry{simulated(3, 2, 2, 60), {Job: "j", Phase: control.Forming, NowMillis: 1, SinceMillis: 1}} {
		if out := promtool(t, scrape(t, v), "check", "metrics"); out != "" {
			t.Errorf("promtool check metrics says:\n%s", out)
		}
	}
}

func TestPromtoolTestsTheAlerts(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "config", "prometheus.yml")
	if out := promtool(t, "", "check", "rules", "alerts.yml"); !strings.Contains(out, "8 rules found") {
		t.Errorf("promtool check rules says:\n%s", out)
	}
	promtool(t, "", "test", "rules", "alerts_test.yml")
}

// alerts are the names and expressions of the alert rules.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = r.Expr
		}
	}
	return all
}

// panels are the queries of the dashboard, by panel; they ask for one job.
func panels(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, "grafana-dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Annotations struct{ List []struct{ Name, Expr string } }
		Panels      []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	all, ids := make(map[string]string), make(map[int]bool)
	for _, p := range board.Panels {
		if len(p.Targets) == 0 && p.Type != "row" || ids[p.ID] {
			t.Errorf("panel %d, %q, has no query, or its number is there twice", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			if all[p.Title+" "+q.RefID] = q.Expr; !strings.Contains(q.Expr, `instance="$instance"`) {
				t.Errorf("%s %s does not ask for one job: %s", p.Title, q.RefID, q.Expr)
			}
		}
	}
	if len(all) < 40 || len(board.Annotations.List) != 1 {
		t.Errorf("got %d queries and %d annotations, want at least 40 and one", len(all), len(board.Annotations.List))
	}
	return all
}

// No metric was renamed without the dashboard and the alerts, and the dashboard shows nearly all
// that there are.
func TestDashboardAndAlertsNameMetricsThatThereAre(t *testing.T) {
	asked := make(map[string]bool)
	known := func(name string) bool {
		for _, f := range all() {
			base := name
			if f.Type == inHistogram {
				for _, end := range []string{"_bucket", "_sum", "_count"} {
					base = strings.TrimSuffix(base, end)
				}
			}
			if base == f.Name {
				asked[f.Name] = true
				return true
			}
		}
		return false
	}
	names := regexp.MustCompile(`\bparagon_[a-z_]+`)
	look := func(where string, queries map[string]string) {
		for at, q := range queries {
			for _, name := range names.FindAllString(q, -1) {
				if !known(name) {
					t.Errorf("%s: %s asks for %s, which there is not", where, at, name)
				}
			}
		}
	}
	rules := alerts(t)
	look("alerts", rules)
	queries := panels(t)
	delete(queries, "Heartbeats C") // it matches two names
	look("dashboard", queries)
	if len(rules) != 8 {
		t.Errorf("got %d alerts, want 8", len(rules))
	}
	if len(asked) < 45 {
		t.Errorf("only %d of %d metrics are asked for", len(asked), len(all()))
	}
}

// A database is a real Prometheus that scrapes one server.
type database struct{ url string }

// startPrometheus starts Prometheus with the alerts, and scrapes target five times a second.
func startPrometheus(t *testing.T, target string) *database {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(filepath.Join(deploy, "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`
global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}
rule_files: [%q]
scrape_configs:
  - job_name: paragon
    scrape_timeout: 200ms
    http_sd_configs: [{url: "http://%s/sd"}]
`, rules, target)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, tool(t, "prometheus"), "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0")
	cmd.WaitDelay = time.Second
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	address, read := make(chan string, 1), make(chan struct{})
	var said strings.Builder
	go func() {
		defer close(read)
		listens := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if fmt.Fprintln(&said, lines.Text()); listens.MatchString(lines.Text()) {
				address <- listens.FindStringSubmatch(lines.Text())[1]
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("prometheus:\n%s", &said)
		}
	})
	select {
	case addr := <-address:
		return &database{"http://" + addr}
	case <-read:
	case <-time.After(time.Minute):
	}
	t.Fatal("prometheus does not listen")
	return nil
}

// get asks Prometheus' API.
func (d *database) get(t *testing.T, path string, into any) error {
	t.Helper()
	answer, err := http.Get(d.url + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var a struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("status %d, %s: %w", answer.StatusCode, body, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d, %s", answer.StatusCode, body)
	}
	return json.Unmarshal(a.Data, into)
}

// query returns the values of an expression.
func (d *database) query(t *testing.T, expr string) (values []float64, err error) {
	t.Helper()
	var v struct {
		Result []struct{ Value [2]any }
	}
	if err := d.get(t, "query?query="+url.QueryEscape(expr), &v); err != nil {
		return nil, err
	}
	for _, r := range v.Result {
		x, err := strconv.ParseFloat(r.Value[1].(string), 64)
		if err != nil {
			return nil, err
		}
		values = append(values, x)
	}
	return values, nil
}

// Every query of the dashboard has an answer in a real Prometheus that scrapes a job, and every
// alert can be evaluated.
func TestEveryPanelHasDataInPrometheus(t *testing.T) {
	// It waits for Prometheus, which looks for targets every 5 s.
	t.Parallel()
	tool(t, "prometheus")
	begin := time.Now()
	target := serve(t, func(context.Context) (*control.Telemetry, error) {
		return simulated(3, 2, 2, 3600+time.Since(begin).Seconds()), nil
	}).Addr()
	d := startPrometheus(t, target)
	instance := strings.NewReplacer("$instance", target, "$__rate_interval", "1m", "$__interval", "1m")
	steps := instance.Replace(`rate(paragon_worker_steps_total{instance="$instance", paragon_job="0123456789abcdef", rank="2"}[1m])`)
	for wait := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		// Over too short a time rates are rough.
		if v, err := d.query(t, fmt.Sprintf("count_over_time(paragon_job_generation{instance=%q}[1m]) > 7", target)); err == nil && len(v) == 1 {
			break
		} else if time.Since(wait) > time.Minute {
			t.Fatalf("no scrape has come: %v", err)
		}
	}
	if v, err := d.query(t, steps); err != nil || len(v) != 1 || v[0] <= 0 {
		t.Errorf("%s: got %v, %v, want one rate above 0", steps, v, err)
	}
	queries := panels(t)
	for at, q := range queries {
		if v, err := d.query(t, instance.Replace(q)); err != nil || len(v) == 0 || slices.ContainsFunc(v, func(x float64) bool { return x != x }) {
			t.Errorf("%s: %s: got %v, %v, want numbers", at, q, v, err)
		}
	}
	// Nine of ten simulated steps take 50 to 100 ms, the rest up to 250 ms.
	if v, err := d.query(t, instance.Replace(queries["Step time A"])); err != nil || len(v) != 1 || v[0] < .05 || v[0] > .1 {
		t.Errorf("median of the steps' time: got %v, %v, want 0.05 to 0.1", v, err)
	}
	for wait := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		var rules struct {
			Groups []struct {
				Rules []struct{ Name, Health, State, LastError string }
			}
		}
		if err := d.get(t, "rules", &rules); err != nil {
			t.Fatal(err)
		}
		state := make(map[string]string)
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				if state[r.Name] = r.Health + " " + r.State; r.Health == "err" {
					t.Fatalf("alert %s: %s", r.Name, r.LastError)
				}
			}
		}
		// The simulated job has a slow worker and never a lost one while it is watched.
		if len(state) == 8 && state["ParagonSlowWorker"] == "ok pending" && state["ParagonNodeLost"] == "ok inactive" && state["ParagonSchedulerDown"] == "ok inactive" {
			return
		}
		if time.Since(wait) > time.Minute {
			t.Fatalf("the alerts are %v", state)
		}
	}
}
