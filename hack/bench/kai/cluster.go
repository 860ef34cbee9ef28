package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	v1 "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	kaifake "github.com/NVIDIA/KAI-scheduler/pkg/apis/client/clientset/versioned/fake"
	topology "github.com/NVIDIA/KAI-scheduler/pkg/apis/kai/v1alpha1"
	queue "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2"
	group "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2alpha2"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/eviction_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/podgroup_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf"
)

// objects are what a benchmark's cluster is made of.
type objects struct {
	Nodes           []*v1.Node                  `json:"nodes"`
	Pods            []*v1.Pod                   `json:"pods"`
	Queues          []*queue.Queue              `json:"queues"`
	PodGroups       []*group.PodGroup           `json:"podGroups"`
	Topologies      []*topology.Topology        `json:"topologies"`
	PriorityClasses []*scheduling.PriorityClass `json:"priorityClasses"`
}

// notebook is KAI's cache, except that what a cycle would write is counted and answered with success.
type notebook struct {
	cache.Cache
	lock  sync.Mutex
	count map[string]int
}

func (n *notebook) note(what string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.count[what]++
}

func (n *notebook) Bind(*pod_info.PodInfo, string, map[string]string) error {
	n.note("bind")
	return nil
}

func (n *notebook) Evict(*v1.Pod, *podgroup_info.PodGroupInfo, eviction_info.EvictionMetadata, string) error {
	n.note("evict")
	return nil
}

func (n *notebook) TaskPipelined(*pod_info.PodInfo, string) { n.note("pipeline") }

func (n *notebook) RecordJobStatusEvent(*podgroup_info.PodGroupInfo) error { return nil }

// cluster loads a file into KAI's cache, by way of clients that keep everything in memory.
func cluster(path string, params *conf.SchedulerParams) (*notebook, chan struct{}, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	var all objects
	if err := json.Unmarshal(bytes, &all); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	kube, kai := fake.NewClientset(), kaifake.NewSimpleClientset()
	for _, node := range all.Nodes {
		err = first(err, kube.Tracker().Add(node))
	}
	for _, pod := range all.Pods {
		err = first(err, kube.Tracker().Add(pod))
	}
	for _, class := range all.PriorityClasses {
		err = first(err, kube.Tracker().Add(class))
	}
	background, options := context.Background(), meta.CreateOptions{}
	for _, q := range all.Queues {
		_, failed := kai.SchedulingV2().Queues("").Create(background, q, options)
		err = first(err, failed)
	}
	for _, g := range all.PodGroups {
		_, failed := kai.SchedulingV2alpha2().PodGroups(g.Namespace).Create(background, g, options)
		err = first(err, failed)
	}
	for _, t := range all.Topologies {
		_, failed := kai.KaiV1alpha1().Topologies().Create(background, t, options)
		err = first(err, failed)
	}
	if err != nil {
		return nil, nil, err
	}
	inner := cache.New(&cache.SchedulerCacheParams{
		KubeClient:                  kube,
		KAISchedulerClient:          kai,
		SchedulerName:               params.SchedulerName,
		NodePoolParams:              params.PartitionParams,
		FullHierarchyFairness:       params.FullHierarchyFairness,
		AllowConsolidatingReclaim:   params.AllowConsolidatingReclaim,
		NumOfStatusRecordingWorkers: params.NumOfStatusRecordingWorkers,
		DiscoveryClient:             kube.Discovery(),
	})
	stop := make(chan struct{})
	inner.Run(stop)
	inner.WaitForCacheSync(stop)
	return &notebook{Cache: inner, count: map[string]int{}}, stop, nil
}

func first(had, now error) error {
	if had != nil {
		return had
	}
	return now
}
