package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/paragon-train/paragon/tools/browser"
)

const good = `<!doctype html><title>good</title>
<style>body { background: white; color: black } @media (prefers-color-scheme: dark) { body { background: black; color: white } }</style>
<link rel=icon href="data:,">
<h1>Good</h1><input id=name autofocus><script src="/late.js"></script>`

func site(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("/good", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, good) })
	mux.HandleFunc("/late.js", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, `setTimeout(() => { const p = document.createElement("p"); p.id = "late"; document.body.append(p) }, 50)`)
	})
	mux.HandleFunc("/strict", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		fmt.Fprint(w, `<!doctype html><p>strict</p>`+r.URL.Query().Get("more"))
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<!doctype html><link rel=icon href="data:,"><p>bad</p><script>%s</script>`, r.URL.Query().Get("script"))
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `<!doctype html><link rel=icon href="data:,"><script>setTimeout(() => location = "/good", 50)</script>`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestPages(t *testing.T) {
	url := site(t)
	chromium := browser.Start(t)

	t.Run("size and colours are as asked for", func(t *testing.T) {
		page := chromium.Open(t, url+"/good", browser.View{Width: 400, Height: 300})
		for _, view := range []browser.View{{Width: 400, Height: 300}, {Width: 1600, Height: 900}, {Width: 400, Height: 300, Dark: true}} {
			page.Resize(view)
			if got := browser.Eval[int](page, "innerWidth"); got != view.Width {
				t.Errorf("%+v: the page is %d pixels wide", view, got)
			}
			shot := page.Screenshot(fmt.Sprintf("good-%d-%t", view.Width, view.Dark))
			if size := shot.Bounds().Size(); size.X != view.Width || size.Y != view.Height {
				t.Errorf("%+v: the screenshot has %v pixels", view, size)
			}
			r, _, _, _ := shot.At(view.Width-3, view.Height-3).RGBA()
			if dark := r < 0x8000; dark != view.Dark {
				t.Errorf("%+v: the background's red is %#x", view, r)
			}
		}
		page.WaitFor(`document.querySelector("#late")`)
		page.Press("ab" + kb.ArrowLeft + "c")
		if got := browser.Eval[string](page, `document.querySelector("#name").value`); got != "acb" {
			t.Errorf(`typed "ab", left, "c": got %q`, got)
		}
		page.Clean()
	})

	t.Run("a page of a strict policy can be asked", func(t *testing.T) {
		page := chromium.Open(t, url+"/strict", browser.View{Width: 400, Height: 300})
		page.WaitFor(`document.querySelector("p").textContent === "strict"`)
		page.Clean()
	})

	t.Run("waiting goes on when the page is another one", func(t *testing.T) {
		page := chromium.Open(t, url+"/moved", browser.View{Width: 400, Height: 300})
		page.WaitFor(`document.title === "good"`)
		page.Clean()
	})

	t.Run("pages do not share cookies", func(t *testing.T) {
		one := chromium.Open(t, url+"/good", browser.View{Width: 400, Height: 300})
		browser.Eval[string](one, `document.cookie = "a=1"`)
		two := chromium.Open(t, url+"/good", browser.View{Width: 400, Height: 300})
		if got := browser.Eval[string](two, `document.cookie`); got != "" {
			t.Errorf("the second page has the first one's cookie %q", got)
		}
	})

	for _, tc := range []struct{ name, path, want string }{
		{"console.error", `/bad?script=console.error("broken",7)`, "console.error: broken 7"},
		{"console.warn", `/bad?script=console.warn("careful")`, "console.warning: careful"},
		{"an exception", `/bad?script=nothing()`, "exception: ReferenceError: nothing is not defined"},
		{"a rejected promise", `/bad?script=Promise.reject(new Error("no"))`, "exception: Error: no"},
		{"a request that is refused", `/bad?script=fetch("/missing").then(()=>done=1)`, "/missing: HTTP status 404"},
		{"a request to another host", `/bad?script=fetch("http://example.com/x").catch(()=>done=1)`, "request to another host: http://example.com/x"},
		{"a foreign socket", `/bad?script=new WebSocket("ws://example.com/x").onerror=()=>done=1`, "request to another host: ws://example.com/x"},
		{"a name that is not resolved", `/bad?script=fetch("http://example.com/x").catch(()=>done=1)`, "http://example.com/x: net::ERR_NAME_NOT_RESOLVED"},
		{"what the policy forbids", `/strict?more=<script>nothing()</script>`, "Content Security Policy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			page := chromium.Open(t, url+strings.ReplaceAll(tc.path, "+", "%2B"), browser.View{Width: 400, Height: 300})
			if strings.Contains(tc.path, "done") {
				page.WaitFor(`globalThis.done`)
			}
			// What the network reports may come after what the script does with it.
			var found []string
			has := func(f string) bool { return strings.Contains(f, tc.want) }
			for range 200 {
				if found = append(found, page.Faults()...); slices.ContainsFunc(found, has) {
					return
				}
				browser.Eval[bool](page, `new Promise(resolve => setTimeout(resolve, 20, true))`)
			}
			t.Errorf("found %q, want one with %q", found, tc.want)
		})
	}
}
