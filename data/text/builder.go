package text

import (
	"fmt"
	"strings"
)

// largestToken bounds the numbers of tokens. Vocabularies have some 300,000 at most.
const largestToken = 1 << 22

// A builder makes a vocabulary of what files say. Its tokens are written as in the files, each byte
// as a character.
type builder struct {
	ids    map[string]int32
	tokens map[int32]string
	most   int32

	merges map[pair]merge
	made   map[int32]bool
	added  map[string]special
}

func newBuilder() *builder {
	return &builder{
		ids: make(map[string]int32), tokens: make(map[int32]string),
		merges: make(map[pair]merge), made: make(map[int32]bool), added: make(map[string]special),
	}
}

// add adds a token.
func (b *builder) add(token string, id int64) error {
	switch {
	case token == "":
		return fmt.Errorf("token %d: got no characters, want at least one", id)
	case id < 0 || id >= largestToken:
		return fmt.Errorf("token %q: got the number %d, want 0 to %d", token, id, largestToken-1)
	}
	if other, ok := b.tokens[int32(id)]; ok && other != token {
		return fmt.Errorf("tokens %q and %q both have the number %d", other, token, id)
	}
	if other, ok := b.ids[token]; ok && int64(other) != id {
		return fmt.Errorf("token %q has the numbers %d and %d", token, other, id)
	}
	b.ids[token], b.tokens[int32(id)] = int32(id), token
	b.most = max(b.most, int32(id))
	return nil
}

// merge adds the merge of next rank.
func (b *builder) merge(left, right string) error {
	var ids [3]int32
	for i, token := range []string{left, right, left + right} {
		id, ok := b.ids[token]
		if !ok {
			return fmt.Errorf("merge of %q and %q: %q is not in the vocabulary", left, right, token)
		}
		ids[i] = id
	}
	p := pair{ids[0], ids[1]}
	if m, ok := b.merges[p]; ok {
		return fmt.Errorf("merge of %q and %q: got it twice, as merges %d and %d", left, right, m.rank+1, len(b.merges)+1)
	}
	b.merges[p] = merge{int32(len(b.merges)), ids[2]}
	b.made[ids[2]] = true
	return nil
}

// othersAreSpecial makes those tokens special that are no byte and that no merge makes.
func (b *builder) othersAreSpecial() {
	for id, token := range b.tokens {
		bytes, ok := toBytes(token)
		if ok && len(bytes) == 1 || b.made[id] {
			continue
		}
		b.added[token] = special{id: id}
	}
}

// vocabulary is what was built. With ignoreMerges a piece that is a token is not merged.
func (b *builder) vocabulary(p pattern, ignoreMerges bool) (*vocabulary, error) {
	v := &vocabulary{pattern: p, merges: b.merges, special: b.added}
	for c, character := range characterOf {
		id, ok := b.ids[string(character)]
		if !ok {
			return nil, fmt.Errorf("the vocabulary has no token for byte %d, which is written %q: want one for each byte, as byte-level BPE has", c, character)
		}
		v.ofByte[c] = id
	}
	if ignoreMerges {
		v.whole = make(map[string]int32, len(b.tokens))
	}
	var all strings.Builder
	v.starts = make([]uint32, b.most+2)
	for id := range b.most + 1 {
		if token, ok := b.tokens[id]; ok {
			bytes, ok := toBytes(token)
			_, special := b.added[token]
			if !ok || special {
				bytes = token
			} else if ignoreMerges {
				v.whole[bytes] = id
			}
			all.WriteString(bytes)
		}
		v.starts[id+1] = uint32(all.Len())
	}
	v.bytes = all.String()
	return v, nil
}
