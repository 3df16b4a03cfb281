// Package ruletext writes the rules of a search as JSON, and makes rules from it again. A rule is a
// value of any type that implements one of some interfaces; its text is an object with the name of
// its Go type and, in it, those of its exported fields that are not zero:
//
//	{"*suggest.TPE":{"Startup":4}}
//
// Fields that are functions, or interfaces for anything but rules, are no settings and are left out.
package ruletext
