// kai runs one scheduling cycle of KAI Scheduler over a file of Kubernetes objects and prints what it took and how
// many decisions came of it. It is the peer that Muster's engine is measured against.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf_util"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/framework"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/log"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/plugins"
)

// What a cycle took and decided. The engine's own program prints the same.
type result struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	PeakMiB    float64 `json:"peakMiB"`
	Bind       int     `json:"bind"`
	Evict      int     `json:"evict"`
	Pipeline   int     `json:"pipeline"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kai CLUSTER.json")
		os.Exit(2)
	}
	out := os.Stdout
	os.Stdout = os.Stderr // KAI logs to its standard output
	r, err := measure(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "kai:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(out).Encode(r)
}

func measure(path string) (*result, error) {
	if err := log.InitLoggers(0); err != nil {
		return nil, err
	}
	log.InfraLogger.SetSessionID("bench")
	actions.InitDefaultActions()
	plugins.InitDefaultPlugins()

	config, err := conf_util.GetDefaultSchedulerConf()
	if err != nil {
		return nil, err
	}
	list, err := conf_util.GetActionsFromConfig(config)
	if err != nil {
		return nil, err
	}
	params := commandLineDefaults()
	notes, stop, err := cluster(path, params)
	if err != nil {
		return nil, err
	}
	defer close(stop)
	runtime.GC()

	before := processorTime()
	session, err := framework.OpenSession(notes, config, params, "bench", http.NewServeMux())
	if err != nil {
		return nil, err
	}
	for _, action := range list {
		log.InfraLogger.SetAction(string(action.Name()))
		action.Execute(session)
	}
	framework.CloseSession(session)
	took := processorTime() - before

	return &result{
		CPUSeconds: took.Seconds(),
		PeakMiB:    peakMiB(),
		Bind:       notes.count["bind"],
		Evict:      notes.count["evict"],
		Pipeline:   notes.count["pipeline"],
	}, nil
}

// commandLineDefaults is what KAI does if its command line says nothing.
func commandLineDefaults() *conf.SchedulerParams {
	return &conf.SchedulerParams{
		SchedulerName:                     "kai-scheduler",
		PartitionParams:                   &conf.SchedulingNodePoolParams{},
		MaxNumberConsolidationPreemptees:  16,
		UseSchedulingSignatures:           true,
		FullHierarchyFairness:             true,
		AllowConsolidatingReclaim:         true,
		NumOfStatusRecordingWorkers:       5,
		GlobalDefaultStalenessGracePeriod: time.Minute,
		SchedulePeriod:                    time.Second,
	}
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func peakMiB() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Maxrss) / 1024
}
