/* Stands for libdcmi.so on a machine without devices: eight NPUs of two dies each, server 40 of super-pod 0.
 * Die 1 of NPU 3 has an alarm. Switches: OLD leaves newer calls out, REFUSE refuses addresses, LIE answers
 * what cannot be, SILENT is not ready, HANG never answers. */
#include <string.h>
#include <unistd.h>

#define NPUS 8
#define DIES 2

static int there(int card, int chip)
{
    return card >= 0 && card < NPUS && chip >= 0 && chip < DIES;
}

int dcmi_init(void)
{
#ifdef SILENT
    return -8012;
#else
    return 0;
#endif
}

int dcmi_get_card_list(int *count, int *list, int room)
{
#ifdef HANG
    for (;;) {
        pause();
    }
#endif
    for (int card = 0; card < NPUS && card < room; card++) {
        list[card] = card;
    }
#ifdef LIE
    for (int card = 0; card < room; card++) {
        list[card] = card % 2 ? -card : card;
    }
    *count = 1 << 30;
#else
    *count = NPUS;
#endif
    return 0;
}

int dcmi_get_device_num_in_card(int card, int *count)
{
    *count = DIES + 1;
    return there(card, 0) ? 0 : -8001;
}

#ifndef OLD
int dcmi_get_device_id_in_card(int card, int *most, int *mcu, int *cpu)
{
#ifdef LIE
    *most = 1 << 20;
#else
    *most = DIES;
#endif
    *mcu = DIES;
    *cpu = -1;
    return there(card, 0) ? 0 : -8001;
}
#endif

int dcmi_get_device_type(int card, int chip, int *kind)
{
    (void)card;
    *kind = chip < DIES ? 0 : 1;
    return 0;
}

int dcmi_get_device_logic_id(int *logic, int card, int chip)
{
    *logic = card * DIES + chip;
    return there(card, chip) ? 0 : -8001;
}

int dcmi_get_device_phyid_from_logicid(unsigned int logic, unsigned int *phy)
{
    *phy = logic;
    return logic < NPUS * DIES ? 0 : -8001;
}

struct chip_info {
    unsigned char type[32], name[32], version[32];
    unsigned int cores;
};

int dcmi_get_device_chip_info(int card, int chip, struct chip_info *info)
{
    memset(info, 0, sizeof *info);
    strcpy((char *)info->type, "Ascend");
    strcpy((char *)info->name, "Ascend910");
#ifdef LIE
    memset(info->name, 'x', sizeof info->name);
    info->version[0] = 'y';
#endif
    return there(card, chip) ? 0 : -8001;
}

#ifndef OLD
struct chip_info_v2 {
    unsigned char type[32], name[32], version[32];
    unsigned int cores;
    unsigned char npu[32];
};

int dcmi_get_device_chip_info_v2(int card, int chip, struct chip_info_v2 *info)
{
    return dcmi_get_device_chip_info(card, chip, (struct chip_info *)info);
}
#endif

struct pcie_info {
    unsigned int vendor, subvendor, device, subdevice;
    int domain;
    unsigned int bus, slot, function;
    unsigned char reserve[32];
};

int dcmi_get_device_pcie_info_v2(int card, int chip, struct pcie_info *info)
{
    memset(info, 0, sizeof *info);
    info->vendor = 0x19e5;
    info->device = 0xd803;
    info->bus = 0x9d - 4 * card + 2 * chip;
#ifdef LIE
    info->slot = 77;
#endif
    return there(card, chip) ? 0 : -8001;
}

int dcmi_get_device_health(int card, int chip, unsigned int *health)
{
    *health = card == 3 && chip == 1 ? 2 : 0;
    return there(card, chip) ? 0 : -8001;
}

int dcmi_get_device_network_health(int card, int chip, unsigned int *result)
{
    *result = card == 3 && chip == 1 ? 3 : 0;
    return there(card, chip) ? 0 : -8001;
}

struct ip_addr {
    union {
        unsigned char ip6[16];
        unsigned char ip4[4];
    } address;
    int kind;
};

int dcmi_get_device_ip(int card, int chip, int port, int number, struct ip_addr *ip, struct ip_addr *mask)
{
#ifdef REFUSE
    return -8255;
#endif
    unsigned char roce[4] = {10, 0, (unsigned char)(245 - chip), (unsigned char)(11 + card)};
    unsigned char vnic[4] = {192, 168, 40, (unsigned char)(card * DIES + chip + 1)};
    memcpy(ip->address.ip4, port == 1 ? roce : vnic, 4);
    memset(mask->address.ip4, 255, 3);
    ip->kind = mask->kind = 0;
#ifdef LIE
    ip->kind = 9;
#endif
    return there(card, chip) && number == 0 ? 0 : -8001;
}

#ifndef OLD
struct spod_info {
    unsigned int sdid, size, pod, server, reserve[8];
};

int dcmi_get_device_info(int card, int chip, int topic, unsigned int part, void *room, unsigned int *size)
{
    struct spod_info info = {40u << 22 | card << 18 | chip << 16 | (card * DIES + chip), 384, 0, 40, {0}};
    if (topic != 12 || part != 1 || *size < sizeof info) {
        return -8001;
    }
    memcpy(room, &info, sizeof info);
#ifdef LIE
    *size = 4;
#else
    *size = sizeof info;
#endif
    return there(card, chip) ? 0 : -8001;
}
#endif
