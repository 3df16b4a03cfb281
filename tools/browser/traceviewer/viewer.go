package traceviewer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tools/browser"
)

// A Model is what the viewer read. Times are in milliseconds.
type Model struct {
	// Processes are in the order in which the viewer shows them.
	Processes []Process

	Flows    []Flow
	Warnings []string
	Metadata map[string]any
}

// A Process is a group of lanes.
type Process struct {
	ID   int
	Name string

	// Labels stand beside the name.
	Labels []string

	// Threads are in the order in which the viewer shows them.
	Threads []Thread
}

// A Thread is a lane.
type Thread struct {
	Name   string
	Slices []Slice
}

// A Slice is a bar in a lane.
type Slice struct {
	Title, Category string
	Begin, Duration float64
	Args            map[string]any

	// Colour is an index into the viewer's colours.
	Colour int
}

// A Flow is an arrow between two slices.
type Flow struct {
	Title, Category string
	From, To        End
}

// An End of an arrow: the slice, and the instant at which the arrow touches it.
type End struct {
	Process, Thread, Slice string
	At                     float64
}

// A Viewer shows one trace.
type Viewer struct {
	*browser.Page
	Model Model

	t testing.TB
}

const page = `<!doctype html>
<html><head><meta charset="utf-8"><link rel="icon" href="data:,">
<script src="/static/webcomponents.min.js"></script>
<link rel="import" href="/static/trace_viewer_full.html">
<style>html, body { margin: 0; height: 100%; overflow: hidden } #trace-viewer { width: 100%; height: 100% }</style>
<script>
'use strict';
document.addEventListener('WebComponentsReady', async () => {
	try {
		const lanes = document.createElement('track-view-container');
		lanes.id = 'track_view_container';
		const viewer = document.createElement('tr-ui-timeline-view');
		viewer.id = 'trace-viewer';
		viewer.track_view_container = lanes;
		viewer.globalMode = true;
		viewer.warnPolyfill = () => {}; // it would take a quarter of the screen
		Polymer.dom(viewer).appendChild(lanes);
		Polymer.dom(document.body).appendChild(viewer);
		const model = new tr.Model();
		let trace = await (await fetch('/trace')).arrayBuffer();
		if (new Uint8Array(trace)[0] === '{'.charCodeAt(0)) trace = new TextDecoder().decode(trace);
		await new tr.importer.Import(model).importTraces([trace]);
		viewer.model = model;
		viewer.viewTitle = document.title;
		await viewer.builtPromise;
		for (const e of [viewer.$.analysis, viewer.$.drag_handle]) {
			if (e) e.style.display = 'none'; // details of what is selected, which is nothing
		}
		while (viewer.trackView.pollIfViewportAttachedInterval_ !== undefined) await new Promise(requestAnimationFrame);
		globalThis.viewer = viewer;
	} catch (e) {
		globalThis.failure = String(e && e.stack || e);
	}
});
</script></head><body></body></html>`

const readModel = `(() => {
	const model = viewer.model;
	const end = (slice, at) => ({
		Process: slice.parentContainer.parent.name, Thread: slice.parentContainer.name, Slice: slice.title, At: at,
	});
	return {
		Processes: model.getAllProcesses().sort(tr.model.ProcessBase.compare).map(p => ({
			ID: p.pid, Name: p.name || '', Labels: p.labels,
			Threads: Object.values(p.threads).sort(tr.model.Thread.compare).map(t => ({
				Name: t.name || '',
				Slices: t.sliceGroup.slices.map(s => ({
					Title: s.title, Category: s.category, Begin: s.start, Duration: s.duration, Args: s.args, Colour: s.colorId,
				})),
			})),
		})),
		Flows: model.flowEvents.map(f => ({
			Title: f.title, Category: f.category, From: end(f.startSlice, f.start), To: end(f.endSlice, f.start + f.duration),
		})),
		Warnings: model.importWarnings.map(w => w.type + ': ' + w.message),
		Metadata: Object.fromEntries(model.metadata.map(m => [m.name, m.value])),
	};
})()`

// Open shows a trace, which may be compressed with gzip, in a page of Chromium, and reads the
// viewer's model. A trace that the viewer cannot read fails the test; where the viewer is not
// installed the test is skipped, or fails with PARAGON_TEST_REQUIRE=all.
func Open(t testing.TB, chromium *browser.Browser, trace []byte, view browser.View) *Viewer {
	t.Helper()
	static := files(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, page) })
	mux.HandleFunc("GET /trace", func(w http.ResponseWriter, r *http.Request) { w.Write(trace) })
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServer(http.Dir(static))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	v := &Viewer{Page: chromium.Open(t, server.URL+"/", view), t: t}
	v.WaitFor(`globalThis.viewer || globalThis.failure`)
	if failure := browser.Eval[string](v.Page, `globalThis.failure || ""`); failure != "" {
		t.Fatalf("the viewer cannot read the trace: %s", failure)
	}
	v.Model = browser.Eval[Model](v.Page, readModel)
	return v
}

// files returns the folder with the viewer.
func files(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	dir := filepath.Join(strings.TrimSpace(string(out)), "src", "internal", "trace", "traceviewer", "static")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "trace_viewer_full.html"))
	}
	if err != nil {
		if os.Getenv("PARAGON_TEST_REQUIRE") == "all" {
			t.Fatalf("PARAGON_TEST_REQUIRE=all, and the Go distribution's trace viewer is not there: %v", err)
		}
		t.Skipf("the Go distribution's trace viewer is not there: %v", err)
	}
	return dir
}

// ownWarning is what Chromium says about the viewer itself.
const ownWarning = "The keyword 'slider-vertical' specified to an 'appearance' property is not standardized"

// Clean fails the test where the page has Faults, besides those that come from the viewer itself.
func (v *Viewer) Clean() {
	for _, fault := range v.Faults() {
		if !strings.Contains(fault, ownWarning) {
			v.t.Errorf("the viewer: %s", fault)
		}
	}
}

// Show zooms to the times from begin to end, in milliseconds, and shows or hides the arrows.
func (v *Viewer) Show(begin, end float64, arrows bool) {
	browser.Eval[bool](v.Page, fmt.Sprintf(`(() => {
	const port = viewer.trackView.viewport;
	for (const category of new Set(viewer.model.flowEvents.map(f => f.category))) {
		if (%t) viewer.selectedFlowEvents.add(category); else viewer.selectedFlowEvents.delete(category);
	}
	const to = port.currentDisplayTransform.clone();
	to.xSetWorldBounds(%g, %g, port.modelTrackContainer.canvas.width);
	port.setDisplayTransformImmediately(to);
	port.dispatchChangeEvent();
	return new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))));
})()`, arrows, begin, end))
}
