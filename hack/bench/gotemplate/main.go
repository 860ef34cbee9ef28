// Renders a rank table with Go's own engine and prints how long that takes.
//
//	go run . TEMPLATE SERVERS DEVICES ROUNDS
//
// One line comes out: nanoseconds of the fastest and of the median round, bytes, and a checksum of the output.
package main

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

type device struct{ DeviceId, DeviceIp, RankId string }

type server struct {
	ServerId string
	Devices  []device
}

type table struct {
	Status       string
	ServerCount  int
	TotalDevices int
	Timestamp    string
	Servers      []server
}

func quote(values ...any) string {
	quoted := make([]string, 0, len(values))
	for _, value := range values {
		if value == nil {
			continue
		}
		text, ok := value.(string)
		if !ok {
			text = fmt.Sprint(value)
		}
		quoted = append(quoted, strconv.Quote(text))
	}
	return strings.Join(quoted, " ")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: TEMPLATE SERVERS DEVICES ROUNDS")
		os.Exit(2)
	}
	source, err := os.ReadFile(os.Args[1])
	check(err)
	servers, devices, rounds := number(os.Args[2]), number(os.Args[3]), number(os.Args[4])
	data := table{Status: "completed", ServerCount: servers, TotalDevices: servers * devices, Timestamp: "T"}
	for s := range servers {
		host := server{ServerId: fmt.Sprintf("10.%d.%d.%d", s>>16, s>>8&255, s&255)}
		for d := range devices {
			host.Devices = append(host.Devices, device{strconv.Itoa(d), fmt.Sprintf("192.%d.%d.%d", s>>8, s&255, d), strconv.Itoa(s*devices + d)})
		}
		data.Servers = append(data.Servers, host)
	}
	parsed := template.Must(template.New("ranktable").Funcs(template.FuncMap{"quote": quote}).Parse(string(source)))
	var out bytes.Buffer
	times := make([]time.Duration, 0, rounds)
	for range rounds {
		out.Reset()
		start := time.Now()
		check(parsed.Execute(&out, data))
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	sum := fnv.New64a()
	sum.Write(out.Bytes())
	fmt.Println(times[0].Nanoseconds(), times[len(times)/2].Nanoseconds(), out.Len(), sum.Sum64())
}
