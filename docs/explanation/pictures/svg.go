package main

import (
	"fmt"
	"html"
	"strings"
)

// Colours of public packages, internal ones and commands, of lines, and of text.
const (
	public   = "#cfe3fa"
	internal = "#eceff2"
	command  = "#fbe3b4"
	line     = "#7a8694"
	ink      = "#1b2733"
	faint    = "#5a6672"
)

// charWidth is about the width of a character of text, in pixels.
const charWidth = 7

// small is the style of remarks.
const small = "font-size:11px;fill:" + faint

// An svg is a picture that grows. Lengths are pixels.
type svg struct{ body strings.Builder }

func (s *svg) add(format string, args ...any) { fmt.Fprintf(&s.body, format+"\n", args...) }

func (s *svg) box(x, y, width, height float64, fill string) {
	s.add(`<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="5" fill="%s" stroke="%s"/>`, x, y, width, height, fill, line)
}

// text writes a line whose middle is at x, its base at y.
func (s *svg) text(x, y float64, style, text string) {
	s.add(`<text x="%.0f" y="%.0f" style="%s">%s</text>`, x, y, style, html.EscapeString(text))
}

// bytes is the whole picture, on white, so that it can be read on a dark page, too.
func (s *svg) bytes(width, height float64, title string) []byte {
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0[1]f" height="%.0[2]f" viewBox="0 0 %.0[1]f %.0[2]f" font-family="Helvetica, Arial, sans-serif" font-size="13" text-anchor="middle" fill="%[3]s">
<title>%[4]s</title>
<defs>%[5]s</defs>
<rect width="%.0[1]f" height="%.0[2]f" fill="white"/>
%[6]s</svg>
`, width, height, ink, html.EscapeString(title), arrowhead("arrow", line), s.body.String())
}

// arrowhead defines the end of an arrow. Its size does not depend on the width of the line.
func arrowhead(name, fill string) string {
	return fmt.Sprintf(`<marker id="%s" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="%s"/></marker>`, name, fill)
}
