package amxtest

import (
	"encoding/hex"
	"strings"
	"testing"
)

// The bytes are those of binutils.
func TestDecodesInstructionsOfTheTileUnit(t *testing.T) {
	for _, test := range []struct {
		code string
		want instruction
	}{
		{"c4e2784900", instruction{op: loadConfig, base: 0, index: -1}},                                     // ldtilecfg (%rax)
		{"c4e2784905f0ffffff", instruction{op: loadConfig, base: -1, index: -1, relative: true, disp: -16}}, // ldtilecfg -0x10(%rip)
		{"c4e278490424", instruction{op: loadConfig, base: 4, index: -1}},                                   // ldtilecfg (%rsp)
		{"c4e2794900", instruction{op: storeConfig, base: 0, index: -1}},                                    // sttilecfg (%rax)
		{"c4e27849c0", instruction{op: release}},                                                            // tilerelease
		{"c4e27b49d8", instruction{op: zero, tile: 3}},                                                      // tilezero %tmm3
		{"c4a27b4b9c0a40080000", instruction{op: load, tile: 3, base: 2, index: 9, disp: 0x840}},            // tileloadd 0x840(%rdx,%r9,1),%tmm3
		{"c482794b640500", instruction{op: load, tile: 4, base: 13, index: 8}},                              // tileloaddt1 0x0(%r13,%r8,1),%tmm4
		{"c4827b4b7c0f40", instruction{op: load, tile: 7, base: 15, index: 9, disp: 64}},                    // tileloadd 0x40(%r15,%r9,1),%tmm7
		{"c4e27b4b0c25e8030000", instruction{op: load, tile: 1, base: -1, index: -1, disp: 1000}},           // tileloadd 0x3e8,%tmm1
		{"c4a27a4b44ca80", instruction{op: store, base: 2, index: 9, scale: 3, disp: -128}},                 // tilestored %tmm0,-0x80(%rdx,%r9,8)
		{"c4e2425cdd", instruction{op: dot, tile: 3, a: 5, b: 7}},                                           // tdpbf16ps %tmm7,%tmm5,%tmm3
	} {
		code, err := hex.DecodeString(test.code)
		if err != nil {
			t.Fatal(err)
		}
		test.want.size = len(code)
		got, ok := decode(append(code, make([]byte, 16)...))
		if !ok || got != test.want {
			t.Errorf("%s: got %+v %t, want %+v", test.code, got, ok, test.want)
		}
	}
	for _, code := range []string{"c4e2425edd" /* tdpbssd's opcode */, "c4e27c4900" /* 256 bits */, "c4e1784900" /* map 0F */, "62f27c4849c0", "0f0b", strings.Repeat("90", 5)} {
		b, _ := hex.DecodeString(code)
		if in, ok := decode(append(b, make([]byte, 16)...)); ok {
			t.Errorf("%s: got %+v, want no instruction of the unit", code, in)
		}
	}
}
