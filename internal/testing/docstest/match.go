package docstest

import (
	"regexp"
	"slices"
	"strings"
)

var (
	signs   = regexp.MustCompile(`(^|[\s=(,])[-+](\d)`)
	times   = regexp.MustCompile(`(?:\d+(?:\.\d+)?(?:h|ms|m|µs|ns|s))+\b`)
	numbers = regexp.MustCompile(`\d+(?:[.,:]\d+)*(?:e[-+]?\d+)?(?:[KMGT]i?B?\b)?`)
	bars    = regexp.MustCompile(`[▀-▟─-╿]+|-{3,}`)
	spaces  = regexp.MustCompile(`\s+`)
)

// plain is a line without what differs between two runs: its numbers with their units, its runs of
// spaces, its bars.
func plain(line string) string {
	line = signs.ReplaceAllString(line, "$1$2")
	line = times.ReplaceAllString(line, "0")
	line = numbers.ReplaceAllString(line, "0")
	line = bars.ReplaceAllString(line, "─")
	return strings.TrimSpace(spaces.ReplaceAllString(line, " "))
}

// pattern is an expression that finds what line, a line of a page, stands for in plain lines.
// whole: it has to be all of the line.
func pattern(line string, whole bool) *regexp.Regexp {
	var parts []string
	for part := range strings.SplitSeq(line, ellipsis) {
		parts = append(parts, regexp.QuoteMeta(plain(part)))
	}
	e := strings.Join(parts, ".*")
	if whole {
		e = "^" + e + "$"
	}
	return regexp.MustCompile(e)
}

// missing are those of the lines of a page that are not among the lines that came.
func missing(want []string, got string) (lines []string) {
	var came []string
	for l := range strings.Lines(got) {
		came = append(came, plain(l))
	}
	for _, w := range want {
		if t := strings.TrimSpace(w); t == "" || t == ellipsis {
			continue
		}
		if !slices.ContainsFunc(came, pattern(w, true).MatchString) {
			lines = append(lines, w)
		}
	}
	return lines
}
