package prom

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paragon-train/paragon/internal/member/control"
)

var update = flag.Bool("update", false, "write the golden files")

// serve serves what ask answers, at a free port of this machine.
func serve(t testing.TB, ask func(context.Context) (*control.Telemetry, error)) *Server {
	t.Helper()
	s, err := Listen(Config{Listen: "127.0.0.1:0", Ask: ask, Restarts: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func always(v *control.Telemetry) func(context.Context) (*control.Telemetry, error) {
	return func(context.Context) (*control.Telemetry, error) { return v, nil }
}

// request asks a server, and returns the status and the body.
func request(t testing.TB, s *Server, method, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func scrape(t testing.TB, v *control.Telemetry) string {
	t.Helper()
	s := serve(t, always(v))
	code, body := request(t, s, "GET", "/metrics")
	if code != http.StatusOK {
		t.Fatalf("got status %d: %s", code, body)
	}
	return body
}

// golden compares text with a file of testdata, and writes the file with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got), written anew by go test -update:\n%s", file, d)
	}
}

// Names, labels and types are what dashboards and alerts of users rely on.
func TestTheTextOfASmallJob(t *testing.T) {
	golden(t, filepath.Join("testdata", "small.txt"), scrape(t, simulated(1, 1, 1, 60)))
}

// Prometheus refuses a scrape with a series that is there twice: also processes on one host that
// have had the same rank are apart.
func TestNoSeriesIsThereTwice(t *testing.T) {
	v := simulated(3, 2, 2, 60)
	for i := range v.Nodes {
		v.Nodes[i].Host, v.Nodes[i].Rank = "h", 0
	}
	v.Nodes[4].State = control.NodeGone
	seen := make(map[string]bool)
	for line := range strings.Lines(scrape(t, v)) {
		series := line[:strings.LastIndexByte(line, ' ')]
		if seen[series] && line[0] != '#' {
			t.Errorf("%s is there twice", series)
		}
		seen[series] = true
	}
	if len(seen) < 200 {
		t.Errorf("got %d series, want more", len(seen))
	}
}

// Before nodes have said anything, and when there are none, the job's own metrics are there.
func TestWhatIsNotKnownIsNotThere(t *testing.T) {
	body := scrape(t, &control.Telemetry{Job: "j", Phase: control.Forming, NowMillis: 1, SinceMillis: 1})
	for _, want := range []string{`paragon_job_phase{phase="forming"} 1`, `paragon_job_changes_total{cause="lost"} 0`, `paragon_job_nodes{role="worker",state="counts"} 0`} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("a job that forms has no line %s in\n%s", want, body)
		}
	}
	if strings.Contains(body, "checkpoint") || strings.Contains(body, "paragon_worker") {
		t.Errorf("a job without workers has metrics of them, or of checkpoints:\n%s", body)
	}

	v := simulated(2, 2, 0, 60)

	// Server 0 has not been heard since the scheduler's start.
	v.Nodes[0].AgeMillis = -1
	for i := range v.Nodes[0].Values {
		v.Nodes[0].Values[i] = control.Number(math.NaN())
	}
	v.Nodes[2].Rank = -1 // a worker that joins
	v.Nodes[3].State = control.NodeGone
	body = scrape(t, v)
	for _, not := range []string{`paragon_server_rounds_total{host="h0"`, `node="3"`, "paragon_worker_loss", "record_age_seconds{host=\"h1\",node=\"4\"", "paragon_worker_blamed"} {
		if strings.Contains(body, not) {
			t.Errorf("%s is there:\n%s", not, body)
		}
	}
	for _, want := range []string{`paragon_server_rounds_total{host="h1",node="2",rank="1"} 600`, `paragon_worker_steps_total{host="h1",node="4",rank="1"} 600`} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("%s is not there:\n%s", want, body)
		}
	}
}

// What a process calls itself cannot break the text.
func TestAHostNameCannotBreakTheText(t *testing.T) {
	v := simulated(1, 0, 0, 1)
	v.Nodes[0].Host = "a\"\n\\\xff" + strings.Repeat("x", 1<<16)
	v.Job = "\xfe\n"
	body := scrape(t, v)
	if want := `paragon_worker_steps_total{host="a\"\n\\?` + strings.Repeat("x", 255-5) + `",node="1",rank="0"} 10`; !strings.Contains(body, want) {
		t.Errorf("there is no line %s", want)
	}
}

// A record that was made while a step was being counted does not give more steps in the buckets
// than in all.
func TestBucketsNeverExceedTheCount(t *testing.T) {
	v := simulated(1, 0, 0, 1)
	for i, c := range v.Columns {
		if c.Metric == "steps" {
			v.Nodes[0].Values[i]--
		}
	}
	if body := scrape(t, v); !strings.Contains(body, `step_duration_seconds_bucket{host="h0",node="1",rank="0",le="+Inf"} 10`) {
		t.Errorf("got\n%s", body)
	}
}

const (
	maxSeries = 60
	maxScrape = 8 << 20
)

func TestAWorkerHasAtMost60Series(t *testing.T) {
	series := 0
	for line := range strings.Lines(scrape(t, simulated(2, 1, 1, 60))) {
		if strings.Contains(line, `node="3"`) {
			series++
		}
	}
	if series < 45 || series > maxSeries {
		t.Errorf("a worker with one GPU has %d series, want 45 to %d", series, maxSeries)
	}
}

// thousand is a job of 1,024 workers on hosts with names as long as those of clouds.
func thousand() *control.Telemetry {
	v := simulated(1024, 16, 1, 86400)
	for i := range v.Nodes {
		v.Nodes[i].Host = fmt.Sprintf("ip-10-0-%d-%d.internal", i/256, i%256)
	}
	return v
}

func TestAScrapeOf1024WorkersIsUnder8MB(t *testing.T) {
	body := scrape(t, thousand())
	if n := strings.Count(body, "paragon_worker_steps_total{"); n != 1024 {
		t.Errorf("got %d workers, want 1024", n)
	}
	if len(body) > maxScrape {
		t.Errorf("got %d bytes, want at most %d", len(body), maxScrape)
	}
}

// go test ./launch/internal/prom -run '^$' -bench .
func BenchmarkScrapeOf1024Workers(b *testing.B) {
	for _, gz := range []bool{false, true} {
		b.Run(fmt.Sprintf("gzip=%t", gz), func(b *testing.B) {
			s := serve(b, always(thousand()))
			b.ReportAllocs()
			for b.Loop() {
				r, _ := http.NewRequestWithContext(b.Context(), "GET", "http://"+s.Addr()+"/metrics", nil)
				if r.Header.Set("Accept-Encoding", "identity"); gz {
					r.Header.Set("Accept-Encoding", "gzip")
				}
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, answer.Body)
				if answer.Body.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(n), "bytes")
			}
		})
	}
}

func TestOnlyGetIsAnswered(t *testing.T) {
	s := serve(t, always(simulated(1, 1, 0, 1)))
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/metrics", 200}, {"GET", "/sd", 200}, {"GET", "/", 404}, {"GET", "/metrics/x", 404}, {"GET", "/debug/pprof/", 404},
		{"POST", "/metrics", 405}, {"DELETE", "/metrics", 405}, {"PUT", "/sd", 405},
	} {
		if got, _ := request(t, s, c.method, c.path); got != c.want {
			t.Errorf("%s %s: got status %d, want %d", c.method, c.path, got, c.want)
		}
	}
}

// The target of /sd is the address at which the server was asked.
func TestDiscovery(t *testing.T) {
	s := serve(t, always(simulated(1, 1, 0, 1)))
	_, port, _ := net.SplitHostPort(s.Addr())
	for _, c := range []struct{ host, want string }{{"localhost:" + port, "localhost:" + port}, {"job.example:9464", "job.example:9464"}, {"no-port", s.Addr()}} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr()+"/sd", nil)
		r.Host = c.host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var got []targetGroup
		err = json.NewDecoder(answer.Body).Decode(&got)
		answer.Body.Close()
		if want := []targetGroup{{[]string{c.want}, map[string]string{"paragon_job": "0123456789abcdef"}}}; err != nil || !cmp.Equal(got, want) {
			t.Errorf("asked as %s: got %v, %v, want %v", c.host, got, err, want)
		}
		if kind := answer.Header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("got the type %q, want application/json", kind)
		}
	}
}

// While the scheduler does not answer a scrape fails; the next one that it answers succeeds.
func TestASchedulerThatDoesNotAnswer(t *testing.T) {
	fails := true
	s := serve(t, func(context.Context) (*control.Telemetry, error) {
		if fails {
			return nil, errors.New("busy")
		}
		return simulated(1, 1, 0, 1), nil
	})
	if code, body := request(t, s, "GET", "/metrics"); code != 503 || body != "the scheduler does not answer: busy\n" {
		t.Errorf("got %d, %q", code, body)
	}
	fails = false
	if code, _ := request(t, s, "GET", "/metrics"); code != 200 {
		t.Errorf("then: got %d, want 200", code)
	}
}

// More scrapes at once than there may be are refused and cost nothing; a client that goes away
// makes way for others.
func TestScrapesAtOnceAreLimited(t *testing.T) {
	asked, answer := make(chan bool, 2*maxScrapes), make(chan bool)
	s := serve(t, func(ctx context.Context) (*control.Telemetry, error) {
		asked <- true
		select {
		case <-answer:
			return simulated(1, 1, 0, 1), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var scrapes sync.WaitGroup
	for range maxScrapes {
		scrapes.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+s.Addr()+"/metrics", nil)
			if answer, err := http.DefaultClient.Do(r); err == nil {
				answer.Body.Close()
			}
		})
	}
	for range maxScrapes {
		<-asked
	}
	if code, body := request(t, s, "GET", "/metrics"); code != 503 || !strings.Contains(body, "4 scrapes are in progress already") {
		t.Errorf("the fifth: got %d, %q", code, body)
	}
	cancel()
	scrapes.Wait()
	for range maxScrapes { // all slots are free again
		s.scrapes <- struct{}{}
	}
	for range maxScrapes {
		<-s.scrapes
	}
	close(answer)
	if code, _ := request(t, s, "GET", "/metrics"); code != 200 {
		t.Errorf("then: got %d, want 200", code)
	}
}

// Idle connections do not take the descriptors of the scheduler; closed ones make way.
func TestConnectionsAreLimited(t *testing.T) {
	s := serve(t, always(simulated(1, 1, 0, 1)))
	var idle []net.Conn
	for range maxConns {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	done := make(chan int)
	go func() { code, _ := request(t, s, "GET", "/metrics"); done <- code }()
	select {
	case code := <-done:
		t.Errorf("with %d idle connections: got status %d at once", maxConns, code)
	case <-time.After(20 * time.Millisecond):
	}
	idle[0].Close()
	if code := <-done; code != 200 {
		t.Errorf("then: got status %d, want 200", code)
	}
}

func TestGzip(t *testing.T) {
	s := serve(t, always(simulated(1, 1, 0, 1)))
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr()+"/metrics", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	z, err := gzip.NewReader(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(z); err != nil || !strings.Contains(string(body), "paragon_worker_steps_total") {
		t.Errorf("got %q, %v", body, err)
	}
}

// Only a client that says so gets gzip, whatever else it takes.
func TestGzipIsForClientsThatTakeIt(t *testing.T) {
	for header, want := range map[string]bool{
		"gzip": true, "GZIP": true, "deflate, gzip;q=1.0, *;q=0.5": true, "gzip;q=0.001": true, "br , gzip ; q=.5": true, "zstd,gzip": true,
		"": false, "identity": false, "gzip;q=0": false, "gzip;q=0.000, br": false, "xgzip": false, "gzipx": false, "*": false,
	} {
		if got := takesGzip(&http.Request{Header: http.Header{"Accept-Encoding": {header}}}); got != want {
			t.Errorf("Accept-Encoding: %s: takes gzip is %v, want %v", header, got, want)
		}
	}
}

// A scrape may name the families that it wants, in any order; whatever it accepts, it gets text.
func TestAScrapeOfNamedFamilies(t *testing.T) {
	s := serve(t, always(simulated(1, 1, 0, 1)))
	const query = "?name[]=paragon_job_restarts_total&name[]=paragon_job_generation&name[]=none&name[]=paragon_job_generation"
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr()+"/metrics"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	const want = "# HELP paragon_job_generation Version of the membership.\n# TYPE paragon_job_generation gauge\nparagon_job_generation 3\n" +
		"# HELP paragon_job_restarts_total How often launch has started this job again (--restarts).\n# TYPE paragon_job_restarts_total counter\nparagon_job_restarts_total 1\n"
	if kind := answer.Header.Get("Content-Type"); string(body) != want || kind != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("got type %s and\n%s\nwant\n%s", kind, body, want)
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		addr string

		// want is in the error; empty: there is none.
		want string
	}{
		{"127.0.0.1:0", ""}, {":9464", ""}, {"[::1]:1", ""}, {"9464", "want host:port"}, {"", "want host:port"}, {"h:", "want 0 to 65535"}, {"h:http", "want 0 to 65535"},
		{"h:65536", "want 0 to 65535"}, {"h:-1", "want 0 to 65535"},
	} {
		if err := CheckAddress(c.addr); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.addr, err, c.want)
		}
	}
	s := serve(t, always(nil))
	if _, err := Listen(Config{Listen: s.Addr()}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("an address in use: got %v", err)
	}
}

// The documentation has all metrics.
func TestDocumentedMetrics(t *testing.T) {
	const file = "../../../docs/reference/metrics.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)<!-- metrics -->\n.*<!-- end of metrics -->`)
	want := "<!-- metrics -->\n" + Table() + "<!-- end of metrics -->"
	if *update {
		if err := os.WriteFile(file, table.ReplaceAllLiteral(text, []byte(want)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := string(table.Find(text)); got != want {
		t.Errorf("the table of %s is not that of the program; go test -update writes it (-want +got):\n%s", file, cmp.Diff(want, got))
	}
}
