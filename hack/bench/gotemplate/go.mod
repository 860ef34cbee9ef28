module muster/bench/gotemplate

go 1.22
