//go:build nokubernetes

package main

import (
	"fmt"
	"io"
)

// runK8s says that this program has no `launch k8s`. Tests are built so: its libraries take long to compile.
func runK8s(_ []string, _, stderr io.Writer) int {
	fmt.Fprintln(stderr, "launch: this program was built with -tags nokubernetes; launch k8s needs a build without that tag")
	return 1
}
