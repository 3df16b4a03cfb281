package dl

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
)

// A Version is a library's version: 9.15.1. Numbers that are not known are 0.
type Version struct{ Major, Minor, Patch int }

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Compare is below zero where v is older than w.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// maxPart bounds a number of a version. What is beyond is not one.
const maxPart = 1 << 20

// ParseVersion reads the version that ends a file's or folder's name: libcudnn.so.9.15.1,
// cuda-13.0, python3.12/site-packages is none. The zero Version is none.
func ParseVersion(name string) Version {
	name = filepath.Base(name)
	if i := strings.LastIndex(name, ".so."); i >= 0 {
		name = name[i+len(".so."):]
	} else if i := strings.LastIndexByte(name, '-'); i >= 0 {
		name = name[i+1:]
	} else {
		return Version{}
	}
	var v Version
	for i, part := range strings.SplitN(name, ".", 4) {
		n, ok := number(part)
		if !ok {
			return Version{}
		}
		switch i {
		case 0:
			v.Major = n
		case 1:
			v.Minor = n
		case 2:
			v.Patch = n
		}
	}
	return v
}

// number reads digits alone.
func number(s string) (int, bool) {
	if s == "" {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = 10*n + int(c-'0'); n >= maxPart {
			return 0, false
		}
	}
	return n, true
}

// decimal takes apart a version written as one number: unit is what one major version counts, minor
// what one minor version does.
func decimal(n, unit, minor int) Version {
	return Version{n / unit, n % unit / minor, n % minor}
}
