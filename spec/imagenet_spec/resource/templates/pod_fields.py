"""The fields of a pod template, and of every object in it, from kubernetes 37.

`make generate` writes this module. A field is text unless it says otherwise: [X] is a list, {X}
an object with names of the user's, and a capital begins an object of this table.
"""

ROOT = "PodTemplateSpec"

FIELDS = {
    "AWSElasticBlockStoreVolumeSource": "fsType partition:integer readOnly:boolean volumeID",
    "Affinity": "nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity",
    "AppArmorProfile": "localhostProfile type",
    "AzureDiskVolumeSource": "cachingMode diskName diskURI fsType kind readOnly:boolean",
    "AzureFileVolumeSource": "readOnly:boolean secretName shareName",
    "CSIVolumeSource": """
        driver fsType nodePublishSecretRef:LocalObjectReference readOnly:boolean
        volumeAttributes:{text}""",
    "Capabilities": "add:[text] drop:[text]",
    "CephFSVolumeSource": """
        monitors:[text] path readOnly:boolean secretFile secretRef:LocalObjectReference user""",
    "CinderVolumeSource": "fsType readOnly:boolean secretRef:LocalObjectReference volumeID",
    "ClusterTrustBundleProjection": """
        labelSelector:LabelSelector name optional:boolean path signerName user:integer""",
    "ConfigMapEnvSource": "name optional:boolean",
    "ConfigMapKeySelector": "key name optional:boolean",
    "ConfigMapProjection": "items:[KeyToPath] name optional:boolean",
    "ConfigMapVolumeSource": """
        defaultMode:integer defaultUser:integer items:[KeyToPath] name optional:boolean""",
    "Container": """
        args:[text] command:[text] env:[EnvVar] envFrom:[EnvFromSource] image imagePullPolicy
        lifecycle:Lifecycle livenessProbe:Probe name ports:[ContainerPort] readinessProbe:Probe
        resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements restartPolicy
        restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext
        startupProbe:Probe stdin:boolean stdinOnce:boolean terminationMessagePath
        terminationMessagePolicy tty:boolean volumeDevices:[VolumeDevice]
        volumeMounts:[VolumeMount] workingDir""",
    "ContainerPort": "containerPort:integer hostIP hostPort:integer name protocol",
    "ContainerResizePolicy": "resourceName restartPolicy",
    "ContainerRestartRule": "action exitCodes:ContainerRestartRuleOnExitCodes",
    "ContainerRestartRuleOnExitCodes": "operator values:[integer]",
    "DownwardAPIProjection": "items:[DownwardAPIVolumeFile]",
    "DownwardAPIVolumeFile": """
        fieldRef:ObjectFieldSelector mode:integer path resourceFieldRef:ResourceFieldSelector
        user:integer""",
    "DownwardAPIVolumeSource": """
        defaultMode:integer defaultUser:integer items:[DownwardAPIVolumeFile]""",
    "EmptyDirVolumeSource": "medium mode:integer sizeLimit:quantity",
    "EnvFromSource": "configMapRef:ConfigMapEnvSource prefix secretRef:SecretEnvSource",
    "EnvVar": "name value valueFrom:EnvVarSource",
    "EnvVarSource": """
        configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector
        fileKeyRef:FileKeySelector resourceFieldRef:ResourceFieldSelector
        secretKeyRef:SecretKeySelector""",
    "EphemeralContainer": """
        args:[text] command:[text] env:[EnvVar] envFrom:[EnvFromSource] image imagePullPolicy
        lifecycle:Lifecycle livenessProbe:Probe name ports:[ContainerPort] readinessProbe:Probe
        resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements restartPolicy
        restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext
        startupProbe:Probe stdin:boolean stdinOnce:boolean targetContainerName
        terminationMessagePath terminationMessagePolicy tty:boolean volumeDevices:[VolumeDevice]
        volumeMounts:[VolumeMount] workingDir""",
    "EphemeralVolumeSource": "volumeClaimTemplate:PersistentVolumeClaimTemplate",
    "EvictionResponder": "name priority:integer",
    "ExecAction": "command:[text]",
    "FCVolumeSource": "fsType lun:integer readOnly:boolean targetWWNs:[text] wwids:[text]",
    "FileKeySelector": "key optional:boolean path volumeName",
    "FlexVolumeSource": """
        driver fsType options:{text} readOnly:boolean secretRef:LocalObjectReference""",
    "FlockerVolumeSource": "datasetName datasetUUID",
    "GCEPersistentDiskVolumeSource": "fsType partition:integer pdName readOnly:boolean",
    "GRPCAction": "mode port:integer service",
    "GitRepoVolumeSource": "directory repository revision",
    "GlusterfsVolumeSource": "endpoints path readOnly:boolean",
    "HTTPGetAction": "host httpHeaders:[HTTPHeader] path port:port protocol scheme",
    "HTTPHeader": "name value",
    "HostAlias": "hostnames:[text] ip",
    "HostPathVolumeSource": "path type",
    "ISCSIVolumeSource": """
        chapAuthDiscovery:boolean chapAuthSession:boolean fsType initiatorName iqn
        iscsiInterface lun:integer portals:[text] readOnly:boolean
        secretRef:LocalObjectReference targetPortal""",
    "ImageVolumeSource": "pullPolicy reference",
    "KeyToPath": "key mode:integer path user:integer",
    "LabelSelector": "matchExpressions:[LabelSelectorRequirement] matchLabels:{text}",
    "LabelSelectorRequirement": "key operator values:[text]",
    "Lifecycle": "postStart:LifecycleHandler preStop:LifecycleHandler stopSignal",
    "LifecycleHandler": """
        exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction""",
    "LocalObjectReference": "name",
    "ManagedFieldsEntry": """
        apiVersion fieldsType fieldsV1:object manager operation subresource time""",
    "NFSVolumeSource": "path readOnly:boolean server",
    "NodeAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm]
        requiredDuringSchedulingIgnoredDuringExecution:NodeSelector""",
    "NodeSelector": "nodeSelectorTerms:[NodeSelectorTerm]",
    "NodeSelectorRequirement": "key operator values:[text]",
    "NodeSelectorTerm": """
        matchExpressions:[NodeSelectorRequirement] matchFields:[NodeSelectorRequirement]""",
    "ObjectFieldSelector": "apiVersion fieldPath",
    "ObjectMeta": """
        annotations:{text} creationTimestamp deletionGracePeriodSeconds:integer
        deletionTimestamp finalizers:[text] generateName generation:integer labels:{text}
        managedFields:[ManagedFieldsEntry] name namespace ownerReferences:[OwnerReference]
        resourceVersion selfLink uid""",
    "OwnerReference": "apiVersion blockOwnerDeletion:boolean controller:boolean kind name uid",
    "PersistentVolumeClaimSpec": """
        accessModes:[text] dataSource:TypedLocalObjectReference
        dataSourceRef:TypedObjectReference resources:VolumeResourceRequirements
        selector:LabelSelector storageClassName volumeAttributesClassName volumeMode volumeName""",
    "PersistentVolumeClaimTemplate": "metadata:ObjectMeta spec:PersistentVolumeClaimSpec",
    "PersistentVolumeClaimVolumeSource": "claimName readOnly:boolean",
    "PhotonPersistentDiskVolumeSource": "fsType pdID",
    "PodAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
        requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]""",
    "PodAffinityTerm": """
        labelSelector:LabelSelector matchLabelKeys:[text] mismatchLabelKeys:[text]
        namespaceSelector:LabelSelector namespaces:[text] topologyKey""",
    "PodAntiAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
        requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]""",
    "PodCertificateProjection": """
        certificateChainPath credentialBundlePath keyPath keyType maxExpirationSeconds:integer
        signerName user:integer userAnnotations:{text}""",
    "PodDNSConfig": "nameservers:[text] options:[PodDNSConfigOption] searches:[text]",
    "PodDNSConfigOption": "name value",
    "PodOS": "name",
    "PodReadinessGate": "conditionType",
    "PodResourceClaim": "name resourceClaimName resourceClaimTemplateName",
    "PodSchedulingGate": "name",
    "PodSchedulingGroup": "podGroupName",
    "PodSecurityContext": """
        appArmorProfile:AppArmorProfile fsGroup:integer fsGroupChangePolicy runAsGroup:integer
        runAsNonRoot:boolean runAsUser:integer seLinuxChangePolicy seLinuxOptions:SELinuxOptions
        seccompProfile:SeccompProfile supplementalGroups:[integer] supplementalGroupsPolicy
        sysctls:[Sysctl] windowsOptions:WindowsSecurityContextOptions""",
    "PodSpec": """
        activeDeadlineSeconds:integer affinity:Affinity automountServiceAccountToken:boolean
        containers:[Container] dnsConfig:PodDNSConfig dnsPolicy enableServiceLinks:boolean
        ephemeralContainers:[EphemeralContainer] evictionResponders:[EvictionResponder]
        hostAliases:[HostAlias] hostIPC:boolean hostNetwork:boolean hostPID:boolean
        hostUsers:boolean hostname hostnameOverride imagePullSecrets:[LocalObjectReference]
        initContainers:[Container] nodeName nodeSelector:{text} os:PodOS overhead:{quantity}
        preemptionPolicy priority:integer priorityClassName readinessGates:[PodReadinessGate]
        resourceClaims:[PodResourceClaim] resources:ResourceRequirements restartPolicy
        runtimeClassName schedulerName schedulingGates:[PodSchedulingGate]
        schedulingGroup:PodSchedulingGroup securityContext:PodSecurityContext serviceAccount
        serviceAccountName setHostnameAsFQDN:boolean shareProcessNamespace:boolean subdomain
        terminationGracePeriodSeconds:integer tolerations:[Toleration]
        topologySpreadConstraints:[TopologySpreadConstraint] volumes:[Volume]""",
    "PodTemplateSpec": "metadata:ObjectMeta spec:PodSpec",
    "PortworxVolumeSource": "fsType readOnly:boolean volumeID",
    "PreferredSchedulingTerm": "preference:NodeSelectorTerm weight:integer",
    "Probe": """
        exec:ExecAction failureThreshold:integer grpc:GRPCAction httpGet:HTTPGetAction
        initialDelaySeconds:integer periodSeconds:integer successThreshold:integer
        tcpSocket:TCPSocketAction terminationGracePeriodSeconds:integer timeoutSeconds:integer""",
    "ProjectedVolumeSource": "defaultMode:integer defaultUser:integer sources:[VolumeProjection]",
    "QuobyteVolumeSource": "group readOnly:boolean registry tenant user volume",
    "RBDVolumeSource": """
        fsType image keyring monitors:[text] pool readOnly:boolean
        secretRef:LocalObjectReference user""",
    "ResourceClaim": "name request",
    "ResourceFieldSelector": "containerName divisor:quantity resource",
    "ResourceRequirements": "claims:[ResourceClaim] limits:{quantity} requests:{quantity}",
    "SELinuxOptions": "level role type user",
    "ScaleIOVolumeSource": """
        fsType gateway protectionDomain readOnly:boolean secretRef:LocalObjectReference
        sslEnabled:boolean storageMode storagePool system volumeName""",
    "SeccompProfile": "localhostProfile type",
    "SecretEnvSource": "name optional:boolean",
    "SecretKeySelector": "key name optional:boolean",
    "SecretProjection": "items:[KeyToPath] name optional:boolean",
    "SecretVolumeSource": """
        defaultMode:integer defaultUser:integer items:[KeyToPath] optional:boolean secretName""",
    "SecurityContext": """
        allowPrivilegeEscalation:boolean appArmorProfile:AppArmorProfile
        capabilities:Capabilities privileged:boolean procMount readOnlyRootFilesystem:boolean
        runAsGroup:integer runAsNonRoot:boolean runAsUser:integer seLinuxOptions:SELinuxOptions
        seccompProfile:SeccompProfile windowsOptions:WindowsSecurityContextOptions""",
    "ServiceAccountTokenProjection": "audience expirationSeconds:integer path user:integer",
    "SleepAction": "seconds:integer",
    "StorageOSVolumeSource": """
        fsType readOnly:boolean secretRef:LocalObjectReference volumeName volumeNamespace""",
    "Sysctl": "name value",
    "TCPSocketAction": "host port:port",
    "Toleration": "effect key operator tolerationSeconds:integer value",
    "TopologySpreadConstraint": """
        labelSelector:LabelSelector matchLabelKeys:[text] maxSkew:integer minDomains:integer
        nodeAffinityPolicy nodeTaintsPolicy topologyKey whenUnsatisfiable""",
    "TypedLocalObjectReference": "apiGroup kind name",
    "TypedObjectReference": "apiGroup kind name namespace",
    "Volume": """
        awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
        azureFile:AzureFileVolumeSource cephfs:CephFSVolumeSource cinder:CinderVolumeSource
        configMap:ConfigMapVolumeSource csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource
        emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource
        flexVolume:FlexVolumeSource flocker:FlockerVolumeSource
        gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource
        glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource image:ImageVolumeSource
        iscsi:ISCSIVolumeSource name nfs:NFSVolumeSource
        persistentVolumeClaim:PersistentVolumeClaimVolumeSource
        photonPersistentDisk:PhotonPersistentDiskVolumeSource
        portworxVolume:PortworxVolumeSource projected:ProjectedVolumeSource
        quobyte:QuobyteVolumeSource rbd:RBDVolumeSource scaleIO:ScaleIOVolumeSource
        secret:SecretVolumeSource storageos:StorageOSVolumeSource
        vsphereVolume:VsphereVirtualDiskVolumeSource""",
    "VolumeDevice": "devicePath name",
    "VolumeMount": """
        bindMountOptions:[text] mountPath mountPropagation name readOnly:boolean
        recursiveReadOnly subPath subPathExpr""",
    "VolumeProjection": """
        clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection
        downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection
        secret:SecretProjection serviceAccountToken:ServiceAccountTokenProjection""",
    "VolumeResourceRequirements": "limits:{quantity} requests:{quantity}",
    "VsphereVirtualDiskVolumeSource": "fsType storagePolicyID storagePolicyName volumePath",
    "WeightedPodAffinityTerm": "podAffinityTerm:PodAffinityTerm weight:integer",
    "WindowsSecurityContextOptions": """
        gmsaCredentialSpec gmsaCredentialSpecName hostProcess:boolean runAsUserName""",
}
