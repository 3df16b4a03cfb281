package browser_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/internal/observe/page/pagetest"
	"github.com/paragon-train/paragon/tools/browser"
)

// openJob shows a made-up job in a browser.
func openJob(t *testing.T, chromium *browser.Browser, job *pagetest.Job, view browser.View) *browser.Page {
	t.Helper()
	key := page.NewKey()
	s, err := page.Listen(page.Config{Listen: "127.0.0.1:0", Feed: job, Key: key, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p := chromium.Open(t, key.Link(s.URL()), view)
	p.WaitFor(`document.querySelectorAll("#workers tbody tr").length > 0 && document.querySelector("#curves canvas") !== null`)
	return p
}

func newJob(workers, servers int) *pagetest.Job {
	return &pagetest.Job{Workers: workers, Servers: servers, Begin: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), Past: 600}
}

// What each view shows can be read, without a scroll bar to the side, and nothing is asked of other
// hosts or refused by the page's own policy.
func TestPageInEachView(t *testing.T) {
	chromium := browser.Start(t)
	for name, view := range map[string]browser.View{
		"page-wide-light": {Width: 1600, Height: 2300}, "page-wide-dark": {Width: 1600, Height: 2300, Dark: true},
		"page-narrow-light": {Width: 400, Height: 4600}, "page-narrow-dark": {Width: 400, Height: 4600, Dark: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := openJob(t, chromium, newJob(4, 2), view)
			p.WaitFor(`document.body.textContent.includes("worker 3 on d3 is slow")`)
			p.WaitFor(`document.querySelectorAll("#timeline svg g.row path.part.compute[d^=M]").length === 4`)
			p.WaitFor(`[...document.querySelectorAll("figure.chart")].some((c) => c.querySelector("h3").textContent === "Test top5" && c.querySelector("canvas"))`)
			if wide := browser.Eval[int](p, `document.documentElement.scrollWidth`); wide > view.Width {
				t.Errorf("the page is %d pixels wide, want at most %d", wide, view.Width)
			}
			p.Screenshot(name)
			p.Clean()
		})
	}
}

// Headings and cells of every table are whole at each width, also with large numbers and the
// longest words for states.
func TestTablesAreWholeAtEachWidth(t *testing.T) {
	chromium := browser.Start(t)
	for _, width := range []int{400, 640, 641, 1000, 1001, 1300, 1400, 1401, 1600, 1920} {
		job := newJob(12, 2)
		job.Domain, job.Gone = "-localhost", 1
		p := openJob(t, chromium, job, browser.View{Width: width, Height: 2300})
		p.WaitFor(`document.querySelectorAll("#devices tbody tr").length > 2`)
		cut := browser.Eval[string](p, `(() => {
			const tables = [...document.querySelectorAll(".scroll")].filter((s) => s.scrollWidth > s.clientWidth).map((s) => `+"`${s.ariaLabel}: ${s.scrollWidth} of ${s.clientWidth} pixels`"+`);
			const cells = [...document.querySelectorAll(".scroll th, .scroll td")].filter((c) => c.scrollWidth > c.clientWidth + 1 && !c.classList.contains("column-host")).map((c) => c.textContent);
			return [...tables, ...cells].join("; ");
		})()`)
		if cut != "" {
			t.Errorf("at %d pixels these are cut: %s", width, cut)
		}
		p.Screenshot(fmt.Sprintf("page-tables-%d", width))
		p.Clean()
	}
}

// The headings say in plain words what launch top and launch ctl status say, and a worker that has
// ended has no row among those that use memory.
func TestHeadingsAndRowsOfTables(t *testing.T) {
	job := newJob(4, 2)
	job.Gone = 1
	p := openJob(t, browser.Start(t), job, browser.View{Width: 1600, Height: 2300})
	p.WaitFor(`document.querySelectorAll("#devices tbody tr").length > 2`)
	for table, want := range map[string]string{
		"workers": "Worker, Host, State, Came last, Late by, Step time, Parts of a step, Compute, Wait, Examples/s, Step, Loss",
		"servers": "Server, Host, State, Rounds/s, Round, Waiting, Gradients held, Parameters, Sent, Received",
	} {
		if got := browser.Eval[string](p, `[...document.querySelectorAll("#`+table+` thead th")].map((h) => h.textContent).join(", ")`); got != want {
			t.Errorf("the headings of %s are %s, want %s", table, got, want)
		}
	}
	if rows := browser.Eval[int](p, `document.querySelectorAll("#devices tbody tr").length`); rows != 5 {
		t.Errorf("with one of 4 workers gone the table of memory has %d rows, want those of 3 workers and 2 servers", rows)
	}
	p.Clean()
}

// The first paint needs little, and little has to be fetched.
func TestPageIsSmallAndSoonThere(t *testing.T) {
	p := openJob(t, browser.Start(t), newJob(4, 2), browser.View{Width: 1600, Height: 1000})
	bytes := browser.Eval[int](p, `performance.getEntries().filter((e) => e.transferSize).reduce((sum, e) => sum + e.transferSize, 0)`)
	if bytes == 0 || bytes > 250_000 {
		t.Errorf("%d bytes were fetched, want at most 250,000", bytes)
	}
	paint := browser.Eval[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
	t.Logf("first paint after %.0f ms, %d bytes", paint, bytes)
	p.Clean()
}

// A thousand workers: those that others wait for are on the first page, the filter finds the
// others, and an update is drawn at once.
func TestPageOfAThousandWorkers(t *testing.T) {
	p := openJob(t, browser.Start(t), newJob(1024, 8), browser.View{Width: 1600, Height: 2300})
	if n := browser.Eval[int](p, `document.querySelectorAll("#workers tbody tr").length`); n > 64 {
		t.Errorf("%d workers are on one page, want at most 64", n)
	}
	p.WaitFor(`document.querySelector("#workers tbody tr").textContent.includes("1023")`)
	p.WaitFor(`performance.getEntriesByName("update").length >= 4`)
	// The median of those after the first, which builds the page.
	took := browser.Eval[float64](p, `(() => { const l = performance.getEntriesByName("update").slice(1).map((e) => e.duration).sort((a, b) => a - b); return l[Math.floor(l.length / 2)]; })()`)
	t.Logf("an update of 1,024 workers takes %.1f ms", took)
	p.Press("/")
	p.WaitFor(`document.activeElement.id === "workers-filter"`)

	// The protocol sends a character of its own besides the key that the page has taken.
	browser.Eval[string](p, `document.activeElement.value = ""`)
	p.Press("d517")
	p.WaitFor(`document.querySelectorAll("#workers tbody tr").length === 1 && document.querySelector("#workers tbody tr").textContent.includes("517")`)
	p.Screenshot("page-thousand")
	p.Clean()
}

// While the scheduler does not answer the page says so, with the newest numbers, and goes on by
// itself.
func TestPageWhileTheSchedulerIsAway(t *testing.T) {
	job := newJob(4, 2)
	job.Outage = 3
	p := openJob(t, browser.Start(t), job, browser.View{Width: 1600, Height: 1000})
	p.WaitFor(`document.body.textContent.includes("The scheduler has not answered since")`)
	if n := browser.Eval[int](p, `document.querySelectorAll("#workers tbody tr").length`); n != 4 {
		t.Errorf("%d workers are shown while the scheduler is away, want 4", n)
	}
	p.Screenshot("page-away")
	p.WaitFor(`!document.body.textContent.includes("The scheduler has not answered since")`)
	p.Clean()
}

// Everything can be reached by keys, and names of hosts and events are text.
func TestPageByKeys(t *testing.T) {
	p := openJob(t, browser.Start(t), newJob(4, 2), browser.View{Width: 1600, Height: 1000})
	p.WaitFor(`document.querySelector("#events").textContent.includes("<b>d2</b>")`)
	if browser.Eval[bool](p, `document.querySelector("#events b") !== null`) {
		t.Error("the HTML in an event is HTML of the page")
	}
	p.Press("?")
	p.WaitFor(`document.querySelector("dialog[open]")?.textContent.includes("go to workers")`)
	p.Screenshot("page-keys")
	p.Press("\x1b")
	p.WaitFor(`document.querySelector("dialog[open]") === null`)
	p.Press("w")
	p.WaitFor(`document.activeElement.closest("#workers") !== null`)
	p.Press("t")
	p.WaitFor(`document.activeElement.closest("#timeline") !== null`)
	p.Press("p")
	p.WaitFor(`document.body.textContent.includes("paused")`)
	p.Clean()
}
