// Package fastrpc shows as tests why calls between processes have a transport of our own and not
// github.com/valyala/fastrpc, and measures how fast that is. Note 2 on design has what came of it.
//
//	go test ./bench/fastrpc -run WhyNot
//	go test ./internal/store/transport ./bench/fastrpc -run xxx -bench 'Transport|Fastrpc' -count 10 | benchstat -col .name -
package fastrpc
