package text

// GPT-2's files write each byte of a token as a character that can be seen: those of Latin 1 that
// can are themselves, and the other 68 are U+0100 and on, in their order. A space is Ġ, a new line Ċ.

// characterOf is the character of each byte, and byteOf the byte of each character below 0x144, or
// −1.
var characterOf, byteOf = alphabet()

func alphabet() (characters [256]rune, bytes [256 + 68]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	next := rune(256)
	for b := range rune(256) {
		c := b
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			c = next
			next++
		}
		characters[b], bytes[c] = c, int16(b)
	}
	return characters, bytes
}

// toBytes returns the bytes that a token of a file stands for; false if one of its characters
// stands for none.
func toBytes(token string) (string, bool) {
	out := make([]byte, 0, len(token))
	for _, c := range token {
		if c < 0 || int(c) >= len(byteOf) || byteOf[c] < 0 {
			return "", false
		}
		out = append(out, byte(byteOf[c]))
	}
	return string(out), true
}
