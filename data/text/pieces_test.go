package text

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// white is white space as Unicode has it, of which package regexp knows only ASCII's.
const white = `\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`

// The patterns without their last two alternatives, which need a look ahead.
var expressions = map[pattern]*regexp.Regexp{
	gpt2Pattern:   regexp.MustCompile(`^(?:'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^` + white + `\p{L}\p{N}]+)`),
	cl100kPattern: regexp.MustCompile(`^(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^` + white + `\p{L}\p{N}]+[\r\n]*|[` + white + `]*[\r\n]+)`),
}

var spacesOnly = regexp.MustCompile(`^[` + white + `]+`)

// expressionPieces cuts a text by regular expressions.
func expressionPieces(p pattern, text string) (pieces []string) {
	for text != "" {
		piece := expressions[p].FindString(text)
		if piece == "" {
			piece = spacesOnly.FindString(text)
			if _, last := utf8.DecodeLastRuneInString(piece); len(piece) < len(text) && last < len(piece) {
				piece = piece[:len(piece)-last]
			}
		}
		if piece == "" {
			return append(pieces, "no piece: "+text)
		}
		pieces = append(pieces, piece)
		text = text[len(piece):]
	}
	return pieces
}

func FuzzPiecesAreThoseOfTheExpressions(f *testing.F) {
	for _, c := range readOracle(f).Cases {
		f.Add(c.Text)
	}
	for _, s := range []string{
		"IT'S 'ſo we'LL 'Re", "a\r\n\r\n  b\n \n  c   ", "1234567 12 ½½½½", "!!\n\n(x)\n", "\tfoo\u00a0bar \u3000x \n y", "x\n\n", " \r\n", "'", "'l", " '", "\u0085\u2028 a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// Package regexp takes a byte that is no character for U+FFFD, as a class may hold.
		for p := range expressions {
			if got, want := pieces(p, text), expressionPieces(p, text); !slices.Equal(got, want) {
				t.Errorf("pattern %d: %q: got %q, want %q", p, text, got, want)
			}
		}
	})
}

// Where a text may be cut, the pieces before and behind do not depend on each other.
func FuzzACutChangesNoPiece(f *testing.F) {
	for _, c := range readOracle(f).Cases {
		f.Add(c.Text, uint(3))
	}
	f.Add("é\xc3\xa9 x", uint(1))
	f.Add("12 é\u0301x", uint(4))
	f.Fuzz(func(t *testing.T, text string, limit uint) {
		at := cutPiece(text, int(limit%uint(len(text)+1)))
		if at < 0 || at > len(text) {
			t.Fatalf("%q: got a cut at %d", text, at)
		}
		for p := range expressions {
			got := append(pieces(p, text[:at]), pieces(p, text[at:])...)
			if want := pieces(p, text); !slices.Equal(got, want) {
				t.Errorf("pattern %d: %q cut at %d: got %q, want %q", p, text, at, got, want)
			}
		}
	})
}

func TestAWordEndsWhereATextMayBeCut(t *testing.T) {
	if got, want := cutPiece("hello big world", 14), len("hello big"); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	if got := cutPiece(strings.Repeat("a", 50), 46); got != 0 {
		t.Errorf("in one word: got %d, want 0", got)
	}
}
