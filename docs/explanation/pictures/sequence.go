package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A sequence is a picture of who says what to whom, from the top down.
type sequence struct {
	file, title string
	steps       []step
}

// A step is a message, or what one does by itself: to is "".
type step struct{ from, to, text string }

var (
	pictureOf = regexp.MustCompile(`^!\[(.+)\]\((\w+\.svg)\)$`)
	stepOf    = regexp.MustCompile(`^\d+\. \*\*(?:([^:→]+) → )?([^:→]+): ([^*]+)\.\*\*`)
	listItem  = regexp.MustCompile(`^\d+\. `)
)

// maxText is the length in characters up to which a step's text fits beside two lanes.
const maxText = 32

// readSequences reads the sequences of a page: a picture, and below it a numbered list whose items
// begin with **A → B: what.** or **A: what.**
func readSequences(page string) (all []sequence, err error) {
	for text := range strings.Lines(page) {
		text = strings.TrimSpace(text)
		if m := pictureOf.FindStringSubmatch(text); m != nil {
			all = append(all, sequence{file: m[2], title: m[1]})
		}
		if !listItem.MatchString(text) || len(all) == 0 {
			continue
		}
		m := stepOf.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("%q: want a step, **A → B: what.** or **A: what.**", text)
		}
		if len(m[3]) > maxText {
			return nil, fmt.Errorf("%q: got %d characters, want at most %d", m[3], len(m[3]), maxText)
		}
		s := step{m[1], m[2], m[3]}
		if s.from == "" {
			s.from, s.to = s.to, ""
		}
		last := &all[len(all)-1]
		last.steps = append(last.steps, s)
	}
	return slices.DeleteFunc(all, func(s sequence) bool { return len(s.steps) == 0 }), nil
}

// lanes are those who take part, in the order of their first step.
func (s *sequence) lanes() (names []string) {
	for _, x := range s.steps {
		for _, n := range []string{x.from, x.to} {
			if n != "" && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names
}

func (s *sequence) draw() []byte {
	const laneWidth, stepHeight, boxHeight, top = 220, 44, 42, 14
	lanes := s.lanes()
	x := func(lane string) float64 { return laneWidth * (float64(slices.Index(lanes, lane)) + 0.5) }
	height := float64(top + boxHeight + stepHeight*(len(s.steps)+1))
	var p svg
	for _, l := range lanes {
		p.add(`<path d="M%.0f,%d V%.0f" stroke="%s" stroke-dasharray="4 4"/>`, x(l), top+boxHeight, height-top, line)
		p.box(x(l)-80, top, 160, boxHeight, public)
		p.text(x(l), top+26, "font-weight:bold", l)
	}
	for i, t := range s.steps {
		y := float64(top + boxHeight + stepHeight*(i+1))
		text := fmt.Sprintf("%d. %s", i+1, t.text)
		if t.to == "" {
			w := float64(charWidth*len(text)) + 16
			p.box(x(t.from)-w/2, y-22, w, 30, internal)
			p.text(x(t.from), y-2, "", text)
			continue
		}
		p.add(`<path d="M%.0f,%.0f H%.0f" stroke="%s" marker-end="url(#arrow)"/>`, x(t.from), y, x(t.to), line)
		middle, w := (x(t.from)+x(t.to))/2, float64(charWidth*len(text))
		p.add(`<rect x="%.0f" y="%.0f" width="%.0f" height="16" fill="white"/>`, middle-w/2, y-20, w)
		p.text(middle, y-7, "", text)
	}
	return p.bytes(laneWidth*float64(len(lanes)), height, s.title)
}
