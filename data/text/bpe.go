package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A BPE is a tokenizer of byte pair encoding. Open, ReadVocabulary and ReadTokenizer give one.
//
// A text need not be UTF-8: a byte that is part of no character stands for itself.
type BPE struct {
	*vocabulary

	// allowed are the special tokens that are found; nil: none.
	allowed *finder
}

var _ Tokenizer = (*BPE)(nil)

// A vocabulary is what all tokenizers from the same files share.
type vocabulary struct {
	pattern pattern

	// bytes has the bytes of all tokens one after the other: those of token i lie from starts[i]
	// to starts[i+1].
	bytes  string
	starts []uint32

	ofByte [256]int32
	merges map[pair]merge

	// whole has the numbers of tokens by their bytes if a piece that is a token is not merged
	// (ignore_merges); nil: all pieces are merged.
	whole map[string]int32

	special map[string]special

	// encoders has an *encoder for each goroutine that encodes now.
	encoders sync.Pool
}

// A special is a special token.
type special struct {
	id int32
	// refused says why it cannot be found in a text; empty: it can.
	refused string
}

func (v *vocabulary) merge(left, right int32) merge {
	if m, ok := v.merges[pair{left, right}]; ok {
		return m
	}
	return merge{rank: noRank}
}

// Size implements Tokenizer.
func (v *vocabulary) Size() int { return len(v.starts) - 1 }

// Token implements Tokenizer.
func (v *vocabulary) Token(id int32) (string, error) {
	if id < 0 || int(id) >= v.Size() || v.starts[id] == v.starts[id+1] {
		return "", unknownToken(id, v.Size())
	}
	return v.bytes[v.starts[id]:v.starts[id+1]], nil
}

// Special returns the number of a special token, such as <|endoftext|>. Tokens that a file lists as
// added are special, and those of a vocab.json that no merge makes.
func (v *vocabulary) Special(token string) (id int32, ok bool) {
	s, ok := v.special[token]
	return s.id, ok
}

// Specials returns the special tokens, in the order of their numbers.
func (v *vocabulary) Specials() []string {
	tokens := make([]string, 0, len(v.special))
	for token := range v.special {
		tokens = append(tokens, token)
	}
	slices.SortFunc(tokens, func(a, b string) int { return cmp.Compare(v.special[a].id, v.special[b].id) })
	return tokens
}

// Allow returns a tokenizer that finds these special tokens in texts, and no others; where one is
// the beginning of another, the longer one counts. It is for texts that were written for a model,
// and not for what users type.
func (t *BPE) Allow(tokens ...string) (*BPE, error) {
	found := make(map[string]int32, len(tokens))
	for _, token := range tokens {
		s, ok := t.special[token]
		switch {
		case !ok:
			return nil, fmt.Errorf("text: allow: got %q, want a special token: %s", token, list(t.Specials()))
		case s.refused != "":
			return nil, fmt.Errorf("text: allow: %q: %s", token, s.refused)
		}
		found[token] = s.id
	}
	return &BPE{t.vocabulary, newFinder(found)}, nil
}

// list names some of a list.
func list(names []string) string {
	const most = 5
	switch {
	case len(names) == 0:
		return "the vocabulary has none"
	case len(names) > most:
		return fmt.Sprintf("%q and %d more", names[:most], len(names)-most)
	}
	return fmt.Sprintf("%q", names)
}

// Append implements Tokenizer.
func (t *BPE) Append(dst []int32, text string) []int32 {
	e, _ := t.encoders.Get().(*encoder)
	if e == nil {
		e = newEncoder()
	}
	defer t.encoders.Put(e)
	for text != "" {
		at, end, id := t.allowed.find(text)
		dst = e.append(t.vocabulary, dst, text[:at])
		if at < end {
			dst = append(dst, id)
		}
		text = text[end:]
	}
	return dst
}

// cut implements cutter.
func (t *BPE) cut(text string) int {
	const longest = 4 // bytes of a character
	limit := len(text) - max(longest, t.allowed.longest())
	if limit <= 0 {
		return 0
	}
	cut := cutPiece(text, limit)
	for from := 0; from < cut; {
		at, end, _ := t.allowed.find(text[from:])
		switch {
		case from+at >= cut:
			return cut
		case from+end > cut:
			// The place is within a special token. Before and behind it any text may be cut.
			if from+at > 0 {
				return from + at
			}
			return from + end
		}
		from += end
	}
	return cut
}

// The bounds of an encoder's memory of pieces.
const (
	// keptPieces are about as many different words as a text of some hundred kilobytes has.
	keptPieces = 1 << 16
	keptTokens = 4 * keptPieces
	keptLength = 64 // bytes
)

// An encoder encodes for one goroutine at a time. It remembers the tokens of pieces that were
// merged, as most words come again and again, and forgets all when there are too many.
type encoder struct {
	merger

	known  map[string]span
	tokens []int32
}

// A span is a piece's tokens. One alone is in the span itself.
type span struct{ first, n int32 }

func newEncoder() *encoder { return &encoder{known: make(map[string]span)} }

// append appends the tokens of a text without special tokens.
func (e *encoder) append(v *vocabulary, dst []int32, text string) []int32 {
	for at := 0; at < len(text); {
		end := v.pattern.next(text, at)
		piece := text[at:end]
		at = end
		if len(piece) == 1 {
			dst = append(dst, v.ofByte[piece[0]])
			continue
		}
		if s, ok := e.known[piece]; ok {
			if s.n == 1 {
				dst = append(dst, s.first)
			} else {
				dst = append(dst, e.tokens[s.first:s.first+s.n]...)
			}
			continue
		}
		dst = e.appendNew(v, dst, piece)
	}
	return dst
}

// appendNew appends the tokens of a piece that is not known, and keeps it.
func (e *encoder) appendNew(v *vocabulary, dst []int32, piece string) []int32 {
	first := len(dst)
	if id, ok := v.whole[piece]; ok {
		dst = append(dst, id)
	} else {
		dst = e.merge(v, dst, piece)
	}
	if len(piece) > keptLength {
		return dst
	}
	tokens := dst[first:]
	if len(e.known) >= keptPieces || len(e.tokens)+len(tokens) > keptTokens {
		clear(e.known)
		e.tokens = e.tokens[:0]
	}
	s := span{tokens[0], 1}
	if len(tokens) > 1 {
		s = span{int32(len(e.tokens)), int32(len(tokens))}
		e.tokens = append(e.tokens, tokens...)
	}
	// The text must not stay in memory for the sake of one of its words.
	e.known[strings.Clone(piece)] = s
	return dst
}
