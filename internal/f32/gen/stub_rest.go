package main

func vectors()     {}
func channels()    {}
func halves()      {}
func compression() {}
