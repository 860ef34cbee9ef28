/* Stands for libnvidia-ml.so.1 in tests: two GPUs joined by two links, the first cut into one slice.
   DIR is a directory; the file "hang" in it makes calls wait, "cold", "lost" and "unheld" lose the second GPU,
   "fail" fails them all. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
} pci_t;

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, LOST = 15, UNKNOWN = 999 };

static int there(const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", DIR, name);
  return access(path, F_OK) == 0;
}

static char gpus[2], slice;
static int number(void *gpu) { return (char *)gpu == &gpus[1]; }

static int place(int gpu, pci_t *pci) {
  memset(pci, 0, sizeof *pci);
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%s:00.0", gpu ? "2A" : "18");
  return OK;
}

int nvmlInit_v2(void) { return there("fail") ? UNKNOWN : OK; }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "550.90.07"); return OK; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  while (there("hang")) usleep(10000);
  *count = 2;
  return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) {
  *gpu = &gpus[index & 1];
  return index == 1 && there("unheld") ? LOST : OK;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **gpu) {
  return nvmlDeviceGetHandleByIndex_v2(strcmp(bus_id, "0000:2a:00.0") == 0, gpu);
}

int nvmlDeviceGetPciInfo_v3(void *gpu, pci_t *pci) { return place(number(gpu), pci); }

int nvmlDeviceGetUUID(void *gpu, char *text, unsigned size) {
  if (gpu == &slice) { snprintf(text, size, "MIG-aa"); return OK; }
  if (number(gpu) && there("lost")) return LOST;
  snprintf(text, size, "GPU-%d", number(gpu));
  return OK;
}

int nvmlDeviceGetTemperature(void *gpu, unsigned sensor, unsigned *degrees) {
  (void)sensor;
  *degrees = 34;
  return number(gpu) && there("cold") ? LOST : OK;
}

int nvmlDeviceGetName(void *gpu, char *text, unsigned size) {
  snprintf(text, size, gpu == &slice ? "NVIDIA H100 MIG 1g.10gb" : "NVIDIA \033[31mH100");
  return OK;
}

int nvmlDeviceGetMigMode(void *gpu, unsigned *current, unsigned *pending) {
  if (number(gpu)) return NOT_SUPPORTED;
  *current = *pending = 1;
  return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(void *gpu, unsigned *count) { (void)gpu; *count = 7; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(void *gpu, unsigned index, void **its) {
  (void)gpu;
  *its = &slice;
  return index == 3 ? OK : NOT_FOUND;
}

int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, unsigned *on) {
  (void)gpu;
  *on = link < 2;
  return link < 18 ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *gpu, unsigned link, pci_t *pci) {
  (void)link;
  return place(!number(gpu), pci);
}
