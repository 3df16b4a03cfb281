package main

import (
	"fmt"
	"strings"
)

// A function is one assembly function while it is written.
type function struct {
	name, signature, doc string
	params               []param
	size                 int // bytes of arguments and results
	body                 strings.Builder

	// vecs are true if in use.
	vecs [32]bool

	gprs    [32]bool
	streams []stream
}

type param struct {
	name, typ string
	offset    int
}

var (
	cur       *function
	functions []*function
	constants []string // DATA and GLOBL lines
)

// text begins a function. Its signature is as Go writes it, with a type for each parameter: "func(x
// *float32, n int) float32".
func text(name, signature, doc string) {
	cur = &function{name: name, signature: signature, doc: doc}
	functions = append(functions, cur)
	list, result, _ := strings.Cut(strings.TrimPrefix(signature, "func("), ")")
	result = strings.Trim(strings.TrimSpace(result), "(")
	at := 0
	place := func(name, typ string) {
		size := map[string]int{"float32": 4, "uint32": 4, "byte": 1}[typ]
		if size == 0 {
			size = 8 // pointers, int
		}
		at = (at + size - 1) / size * size
		cur.params = append(cur.params, param{name, typ, at})
		at += size
	}
	group := func(list string) {
		// names are those of the same type.
		var names []string
		for p := range strings.SplitSeq(list, ", ") {
			name, typ, typed := strings.Cut(p, " ")
			if names = append(names, name); !typed {
				continue
			}
			for _, name := range names {
				place(name, typ)
			}
			names = nil
		}
	}
	group(list)
	if result != "" {
		at = (at + 7) / 8 * 8
		if !strings.Contains(result, " ") {
			result = "ret " + result
		}
		group(strings.TrimSuffix(result, ")"))
	}
	cur.size = at
}

func (f *function) line(format string, args ...any) {
	fmt.Fprintf(&f.body, "\t"+format+"\n", args...)
}

// g writes an instruction that Go's assembler knows.
func g(format string, args ...any) { cur.line(format, args...) }

func label(name string) { fmt.Fprintf(&cur.body, "%s:\n", name) }

// v takes a vector register, r a general one.
func v() vec {
	for i := range cur.vecs {
		if !cur.vecs[i] {
			cur.vecs[i] = true
			return vec(i)
		}
	}
	panic("gen: " + cur.name + ": no vector register is left")
}

func vs(n int) []vec {
	all := make([]vec, n)
	for i := range all {
		all[i] = v()
	}
	return all
}

// Not used: R16 and R17, which the linker may, R18, which belongs to the system, R27, which belongs
// to the assembler, and from R28 on.
func r() gpr {
	for i := range 27 {
		if !cur.gprs[i] && (i < 16 || i > 18) {
			cur.gprs[i] = true
			return gpr(i)
		}
	}
	panic("gen: " + cur.name + ": no general register is left")
}

// scope gives back the registers that body took.
func scope(body func()) {
	vecs, gprs := cur.vecs, cur.gprs
	body()
	cur.vecs, cur.gprs = vecs, gprs
}

func (f *function) param(name string) param {
	for _, p := range f.params {
		if p.name == name {
			return p
		}
	}
	panic("gen: " + f.name + " has no parameter " + name)
}

// arg loads a parameter.
func arg(name string) gpr {
	p, to := cur.param(name), r()
	move := map[string]string{"float32": "MOVWU", "uint32": "MOVWU", "byte": "MOVBU"}[p.typ]
	if move == "" {
		move = "MOVD"
	}
	g("%s %s+%d(FP), %v", move, name, p.offset, to)
	return to
}

// broadcast is a parameter in all lanes.
func broadcast(name string) vec {
	to := v()
	scope(func() { dup(to, arg(name)) })
	return to
}

// constant is a number's bits in all lanes.
func constant(bits uint32) vec {
	to := v()
	scope(func() {
		t := r()
		g("MOVW $0x%x, %v", bits, t)
		dup(to, t)
	})
	return to
}

// lanes is a vector of four numbers.
func lanes(a, b, c, d uint32) vec {
	to := v()
	scope(func() {
		t := r()
		g("MOVD $0x%x, %v", uint64(a)|uint64(b)<<32, t)
		fromGPR(to, t)
		g("MOVD $0x%x, %v", uint64(c)|uint64(d)<<32, t)
		insertD1(to, t)
	})
	return to
}

// returns stores a result.
func returns(name string, from gpr) { g("MOVD %v, %s+%d(FP)", from, name, cur.param(name).offset) }

func returnsFloat(from vec) { g("FMOVS F%d, ret+%d(FP)", from, cur.param("ret").offset) }

func end() { g("RET") }
