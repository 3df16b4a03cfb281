// Package headers compares the constants of CUDA's interfaces that this program has with the header
// files of the machine it runs on, where there are some.
//
// The bindings have their constants from public descriptions of the headers; a wrong one would be a
// call that fails in strange ways. Check is for programs that examine a machine: it reads what is
// installed and says what differs.
//
//	result := headers.Check(headers.Folders(&search))
package headers
