// Package elastic gives the trials of a search that are elastic jobs their replicas.
//
// An allocator decides how many replicas a trial has on which nodes (Jobs.Scale). Each trial's Job
// brings that about: it takes a unit of a node (processors, GPUs, a slot) for each replica, tells
// the job's launcher what replicas to have, and gives a unit back when the worker that held it has
// ended. So the order is always
//
//	shrink: command the launcher → the worker leaves → the unit is free
//	grow:   the unit is free → take it → command the launcher → the worker holds it
//
// and replicas are asked for only where units are held: two trials never share one.
//
// A decision that a job does not carry out within a minute, or that its launcher refuses, is given
// up: the job keeps what it has, and another decision is due. After three in a row its replicas are
// left alone for ten minutes.
package elastic
