package text

import (
	"unicode"
	"unicode/utf8"
)

// A pattern is a rule by which a text is cut into pieces, which are encoded each for itself. The
// rules are regular expressions with a look ahead, which package regexp has not: they are read here
// by hand, from left to right, with the alternatives in their order.
type pattern uint8

const (
	// gpt2Pattern is GPT-2's.
	gpt2Pattern pattern = iota
	// cl100kPattern is that of GPT-4's cl100k, and Llama 3's.
	cl100kPattern
)

// The regular expressions, as files have them.
const (
	gpt2Expression   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	gpt2Shorter      = `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	cl100kExpression = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// patternOf returns the pattern of a regular expression.
func patternOf(expression string) (pattern, bool) {
	switch expression {
	case gpt2Expression, gpt2Shorter:
		return gpt2Pattern, true
	case cl100kExpression:
		return cl100kPattern, true
	}
	return 0, false
}

// A class is what the patterns tell characters apart by.
type class uint8

const (
	// other are punctuation, marks and symbols, and bytes that are no character.
	other class = iota
	letter
	number
	space
)

// asciiClass has the classes of the ASCII characters.
var asciiClass = func() (classes [utf8.RuneSelf]class) {
	for c := range rune(utf8.RuneSelf) {
		classes[c] = classOf(c)
	}
	return classes
}()

// classOf returns the class of any character.
func classOf(c rune) class {
	switch {
	case unicode.IsLetter(c):
		return letter
	case unicode.IsSpace(c):
		return space
	case unicode.IsNumber(c):
		return number
	}
	return other
}

// classAt returns the class of the character at a place, and its length, which is 0 at the end.
func classAt(text string, at int) (class, int) {
	if at >= len(text) {
		return other, 0
	}
	if c := text[at]; c < utf8.RuneSelf {
		return asciiClass[c], 1
	}
	c, n := utf8.DecodeRuneInString(text[at:])
	if c == utf8.RuneError && n == 1 {
		return other, 1
	}
	return classOf(c), n
}

// run returns where the characters of a class that begin at a place end.
func run(text string, at int, of class) int {
	for {
		is, n := classAt(text, at)
		if n == 0 || is != of {
			return at
		}
		at += n
	}
}

// next returns where the piece that begins at a place ends, which is before the end of the text.
func (p pattern) next(text string, at int) int {
	if p == gpt2Pattern {
		return nextGPT2(text, at)
	}
	return nextCL100K(text, at)
}

func nextGPT2(text string, at int) int {
	if text[at] == '\'' {
		if n := contraction(text[at+1:]); n > 0 {
			return at + 1 + n
		}
	}
	is, n := classAt(text, at)
	if text[at] == ' ' {
		if after, m := classAt(text, at+1); m > 0 && after != space {
			return run(text, at+1+m, after)
		}
	}
	if is != space {
		return run(text, at+n, is)
	}
	return spaces(text, at, run(text, at+n, space))
}

// spaces returns where a piece ends that begins a run of white space: at the end of the text all of
// the run is one piece, and else its last character is left to what follows, unless it is the only
// one.
func spaces(text string, at, end int) int {
	if end == len(text) {
		return end
	}
	_, last := utf8.DecodeLastRuneInString(text[at:end])
	if end-last > at {
		return end - last
	}
	return end
}

// contraction returns the length of s, t, m, d, re, ve or ll at the beginning of a text; 0: there is
// none.
func contraction(text string) int {
	if text == "" {
		return 0
	}
	switch text[0] {
	case 's', 't', 'm', 'd':
		return 1
	case 'r', 'v', 'l':
		if len(text) > 1 && (text[1] == 'e' && text[0] != 'l' || text[1] == 'l' && text[0] == 'l') {
			return 2
		}
	}
	return 0
}

// anyContraction is contraction for letters of both cases, and for ſ, which is an s of an older
// time.
func anyContraction(text string) int {
	const longS = "ſ"
	if len(text) >= len(longS) && text[:len(longS)] == longS {
		return len(longS)
	}
	var small [2]byte
	n := copy(small[:], text)
	for i, c := range small[:n] {
		if c >= 'A' && c <= 'Z' {
			small[i] = c + ('a' - 'A')
		}
	}
	return contraction(string(small[:n]))
}

func nextCL100K(text string, at int) int {
	c := text[at]
	if c == '\'' {
		if n := anyContraction(text[at+1:]); n > 0 {
			return at + 1 + n
		}
	}
	is, n := classAt(text, at)
	switch is {
	case letter:
		return run(text, at+n, letter)
	case number:
		// At most three numbers are a piece.
		end := at + n
		for range 2 {
			more, m := classAt(text, end)
			if m == 0 || more != number {
				break
			}
			end += m
		}
		return end
	}
	after, m := classAt(text, at+n)
	if c != '\r' && c != '\n' && m > 0 && after == letter {
		return run(text, at+n+m, letter)
	}
	switch {
	case is == other:
		return lines(text, run(text, at+n, other))
	case c == ' ' && m > 0 && after == other:
		return lines(text, run(text, at+n+m, other))
	}
	end := run(text, at+n, space)
	for i := end; i > at; i-- {
		if text[i-1] == '\r' || text[i-1] == '\n' {
			return i
		}
	}
	return spaces(text, at, end)
}

// lines returns where the ends of lines that begin at a place end.
func lines(text string, at int) int {
	for at < len(text) && (text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// cutPiece returns the last place of text[:limit] at which a piece ends whatever comes before and
// behind; 0: there is none. In both patterns that is so behind letters, and behind numbers, where
// another character follows.
func cutPiece(text string, limit int) int {
	for at := limit; at > 0; {
		_, size := utf8.DecodeLastRuneInString(text[:at])
		before, _ := classAt(text, at-size)
		after, n := classAt(text, at)
		if n > 0 && utf8.RuneStart(text[at]) && before != after && (before == letter || before == number) {
			return at
		}
		at -= size
	}
	return 0
}
