package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// offer is one resource: the plugin that the kubelet talks to.
type offer struct {
	plugin.UnimplementedDevicePluginServer
	resource string
	devices  []*plugin.Device
	server   *grpc.Server // while it is offered
}

func newOffer(resource string, ids []string) *offer {
	offer := &offer{resource: resource}
	for _, id := range ids {
		offer.devices = append(offer.devices, &plugin.Device{ID: id, Health: plugin.Healthy})
	}
	return offer
}

// register serves the resource on a new socket and tells the kubelet of it.
func (o *offer) register(ctx context.Context, directory, kubelet string) error {
	o.withdraw()
	endpoint := strings.NewReplacer("/", "-", ".", "-").Replace(o.resource) + ".sock"
	path := filepath.Join(directory, endpoint)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	o.server = grpc.NewServer()
	plugin.RegisterDevicePluginServer(o.server, o)
	go o.server.Serve(listener) // it ends by withdraw, which has no use for the reason
	connection, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request := &plugin.RegisterRequest{
		Version: plugin.Version, Endpoint: endpoint, ResourceName: o.resource, Options: &plugin.DevicePluginOptions{},
	}
	if _, err := plugin.NewRegistrationClient(connection).Register(ctx, request, grpc.WaitForReady(true)); err != nil {
		return fmt.Errorf("the kubelet did not take it: %w", err)
	}
	log.Printf("%s: registered with %d devices", o.resource, len(o.devices))
	return nil
}

// withdraw ends the streams and removes the socket.
func (o *offer) withdraw() {
	if o.server != nil {
		o.server.Stop()
		o.server = nil
	}
}

func (o *offer) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

// ListAndWatch says once what there is: these devices do not fail.
func (o *offer) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&plugin.ListAndWatchResponse{Devices: o.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate names the devices in the variable that the vendor's container runtime reads.
func (o *offer) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	response := &plugin.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		log.Printf("%s: allocated %v", o.resource, container.DevicesIds)
		response.ContainerResponses = append(response.ContainerResponses, &plugin.ContainerAllocateResponse{
			Envs: map[string]string{variable(o.resource): visible(o.resource, container.DevicesIds)},
		})
	}
	return response, nil
}

func variable(resource string) string {
	if strings.HasPrefix(resource, "nvidia.com/") {
		return "NVIDIA_VISIBLE_DEVICES"
	}
	return "ASCEND_VISIBLE_DEVICES"
}

// visible is what the variable holds: NVIDIA's plugin gives whole ids, Ascend's gives numbers.
func visible(resource string, ids []string) string {
	if strings.HasPrefix(resource, "nvidia.com/") {
		return strings.Join(ids, ",")
	}
	numbers := make([]string, 0, len(ids))
	for _, id := range ids {
		numbers = append(numbers, id[strings.LastIndex(id, "-")+1:])
	}
	return strings.Join(numbers, ",")
}
