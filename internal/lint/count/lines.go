package count

import (
	"go/scanner"
	"go/token"
	"strings"
)

// Lines are the lines of some files by what they have.
type Lines struct {
	// Code is the number of lines with code, whether a comment follows it or not.
	Code int

	// Comment is the number of lines with nothing but a comment.
	Comment int

	Blank int

	// Trailing is the number of comments that stand behind code; LongTrailing is that of those
	// with more than six words. Both are lines of Code, too.
	Trailing, LongTrailing int
}

// longTrailing is how many words a trailing comment may have.
const longTrailing = 6

// Share is the part of the lines that are not blank which are comments.
func (l Lines) Share() float64 {
	if l.Code+l.Comment == 0 {
		return 0
	}
	return float64(l.Comment) / float64(l.Code+l.Comment)
}

// All is the number of lines.
func (l Lines) All() int { return l.Code + l.Comment + l.Blank }

func (l *Lines) add(o Lines) {
	l.Code += o.Code
	l.Comment += o.Comment
	l.Blank += o.Blank
	l.Trailing += o.Trailing
	l.LongTrailing += o.LongTrailing
}

// countLines counts the lines of one file. Lines within a raw string are code, also empty ones.
func countLines(text []byte) (l Lines) {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	hasCode, hasComment := map[int]bool{}, map[int]bool{}

	// behind are the comments that have code before them on their line, by that line. Code that
	// follows on the same line takes them out again.
	behind := map[int]string{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		first := file.Line(pos)
		last := first + strings.Count(lit, "\n")
		switch {
		case tok != token.COMMENT:
			mark(hasCode, first, last)
			delete(behind, first)
		case hasCode[first]:
			behind[first] = lit
			mark(hasComment, first+1, last)
		default:
			mark(hasComment, first, last)
		}
	}
	lines := strings.Count(string(text), "\n")
	for i := 1; i <= lines; i++ {
		switch {
		case hasCode[i]:
			l.Code++
		case hasComment[i]:
			l.Comment++
		default:
			l.Blank++
		}
	}
	for _, comment := range behind {
		l.Trailing++
		if len(strings.Fields(strings.Trim(comment, "/*"))) > longTrailing {
			l.LongTrailing++
		}
	}
	return l
}

func mark(lines map[int]bool, first, last int) {
	for i := first; i <= last; i++ {
		lines[i] = true
	}
}
