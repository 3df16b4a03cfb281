// Package browser lets tests open pages in Chromium as a person would, and look at them.
//
// A Browser is one headless Chromium with a profile of its own. A Page is a tab in it, with cookies
// of its own, of a given size, in light or dark colours. A page keeps what its console said and
// which requests failed or went to other hosts; Clean fails the test where there was any. Nothing
// leaves this machine: Chromium resolves no names but localhost.
//
// It is in the module of the repository's own tools, so that no user inherits the library that
// speaks to Chromium. `make browsertest` runs its tests, and those of the pages that the programs
// serve.
//
//	chromium := browser.Start(t)
//	page := chromium.Open(t, server.URL, browser.View{Width: 400, Height: 800, Dark: true})
//	page.WaitFor(`document.querySelectorAll("tr.worker").length === 2`)
//	title := browser.Eval[string](page, `document.title`)
//	page.Screenshot("job-narrow-dark")
//	page.Clean()
//
// Where PARAGON_TEST_SCREENSHOTS names a folder, screenshots are written there.
package browser
