package page

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// The library that draws curves is npm's uplot@1.6.32, byte for byte: see
// docs/design/0031-live-page.md.
func TestUPlotIsAsItWasPublished(t *testing.T) {
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"uPlot.LICENSE":     "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		b, err := embedded.ReadFile("assets/" + name)
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); err != nil || got != want {
			t.Errorf("%s has SHA-256 %s (%v), want %s", name, got, err, want)
		}
	}
}

// What comes from hosts and people reaches the page as text nodes, and no code or style stands in
// the HTML, which the page's policy would refuse.
func TestAssetsMakeNoHTMLOfText(t *testing.T) {
	bad := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:`)
	files := 0
	err := fs.WalkDir(embedded, "assets", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "uPlot") {
			return err
		}
		files++
		b, err := embedded.ReadFile(path)
		if found := bad.Find(b); found != nil {
			t.Errorf("%s has %s", path, found)
		}
		if strings.HasSuffix(path, ".html") {
			if found := regexp.MustCompile(`\son\w+=|\sstyle=|<style|<script>|https?://`).Find(b); found != nil {
				t.Errorf("%s has %s", path, found)
			}
		}
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("%d files were looked at (%v)", files, err)
	}
}
